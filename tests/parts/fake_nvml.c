/* A stand-in for libnvidia-ml.so.1 with as much of it as a memory meter asks for. Its state is files below
 * $FAKE_NVML_DIR, read again at every call, so what a test writes shows at once:
 *
 *   gpus         a line per GPU:  uuid total_bytes reserved_bytes util_percent temp_c power_mw mig persistence
 *                compute_mode name...
 *   procs/NAME   one line:        gpu pid bytes kind start_ticks
 *                kind C compute, G graphics, M MPS; bytes 2^64-1 is "not available"; start_ticks is field 22 of
 *                /proc/PID/stat, 0 when it is not to be compared. A dead process, a zombie and a reused pid hold nothing.
 *   faults       a line each:     function code delay_ms
 *                `*` is every function; code 0 only delays.
 *
 * Names that begin with a dot are files half written.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long bytes_t;
typedef struct gpu { unsigned index; } *gpu_t;
enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE, VERSION_MISMATCH = 25 };
enum { MAX_GPUS = 16, MAX_HOLDERS = 512 };

struct row { char uuid[96], name[96]; bytes_t total, reserved; unsigned util, temp_c, power_mw, mig, persistence, compute; };
struct holder { unsigned gpu, pid; bytes_t bytes; char kind; };
struct process { unsigned pid; bytes_t used; unsigned gpu_instance, compute_instance; };
struct memory { bytes_t total, free, used; };
struct memory_v2 { unsigned version; bytes_t total, reserved, free, used; };
struct pci { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char id[32]; };

static struct gpu handles[MAX_GPUS];
static int sessions;
static __thread struct row gpus[MAX_GPUS];
static __thread unsigned gpu_count;

static FILE *open_state(const char *name) {
    const char *directory = getenv("FAKE_NVML_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory ? directory : ".", name);
    return fopen(path, "re");
}

static int fault(const char *function) {
    char name[128];
    int code, delay_ms, found = SUCCESS;
    FILE *file = open_state("faults");
    while (file && !found && fscanf(file, "%127s %d %d", name, &code, &delay_ms) == 3) {
        if (strcmp(name, "*") && strcmp(name, function)) continue;
        struct timespec delay = {delay_ms / 1000, delay_ms % 1000 * 1000000L};
        nanosleep(&delay, NULL);
        found = code;
    }
    if (file) fclose(file);
    return found;
}

static void read_gpus(void) {
    FILE *file = open_state("gpus");
    struct row *row = gpus;
    while (file && row < gpus + MAX_GPUS &&
           fscanf(file, "%95s %llu %llu %u %u %u %u %u %u %95[^\n]", row->uuid, &row->total, &row->reserved, &row->util,
                  &row->temp_c, &row->power_mw, &row->mig, &row->persistence, &row->compute, row->name) == 10)
        row++;
    gpu_count = row - gpus;
    if (file) fclose(file);
}

static int lives(unsigned pid, bytes_t start_ticks) {
    char path[64], stat[1024], state;
    bytes_t ticks;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    stat[fread(stat, 1, sizeof stat - 1, file)] = 0;
    fclose(file);
    char *rest = strrchr(stat, ')');  /* the name before it may hold anything */
    if (!rest || sscanf(rest + 1, " %c", &state) != 1 || state == 'Z' || state == 'X') return 0;
    for (int field = 0; rest && field < 20; field++) rest = strchr(rest + 1, ' ');
    return rest && sscanf(rest, " %llu", &ticks) == 1 && (!start_ticks || start_ticks == ticks);
}

/* Fills `found` with the living holders of `gpu`, of one kind or (kind 0) of all; returns how many. */
static unsigned holders(unsigned gpu, char kind, struct holder *found) {
    char path[1024], name[512];
    unsigned count = 0;
    const char *directory = getenv("FAKE_NVML_DIR");
    snprintf(path, sizeof path, "%s/procs", directory ? directory : ".");
    DIR *listing = opendir(path);
    struct dirent *entry;
    while (listing && count < MAX_HOLDERS && (entry = readdir(listing))) {
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "procs/%s", entry->d_name);
        FILE *file = open_state(name);
        if (!file) continue;
        struct holder h;
        bytes_t start_ticks;
        int fields = fscanf(file, "%u %u %llu %c %llu", &h.gpu, &h.pid, &h.bytes, &h.kind, &start_ticks);
        fclose(file);
        if (fields == 5 && h.gpu == gpu && (!kind || h.kind == kind) && lives(h.pid, start_ticks)) found[count++] = h;
    }
    if (listing) closedir(listing);
    return count;
}

static bytes_t used_bytes(unsigned gpu) {
    struct holder found[MAX_HOLDERS];
    bytes_t sum = 0, room = gpus[gpu].total - gpus[gpu].reserved;
    unsigned count = holders(gpu, 0, found);
    for (unsigned i = 0; i < count; i++) sum += found[i].bytes == ~0ULL ? 0 : found[i].bytes;
    return sum < room ? sum : room;
}

static int put(char *to, unsigned size, const char *text) {
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

#define ENTER                                   \
    int broken = fault(__func__);               \
    if (broken) return broken;                  \
    if (!sessions) return UNINITIALIZED;        \
    read_gpus();
#define ENTER_GPU                                                    \
    ENTER if (!gpu || gpu->index >= gpu_count) return INVALID_ARGUMENT; \
    struct row *row = &gpus[gpu->index];

int nvmlInitWithFlags(unsigned flags) {
    int broken = fault(__func__);
    (void)flags;
    if (broken) return broken;
    for (unsigned i = 0; i < MAX_GPUS; i++) handles[i].index = i;
    sessions++;
    return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
    int broken = fault(__func__);
    if (broken) return broken;
    return sessions ? (sessions--, SUCCESS) : UNINITIALIZED;
}
const char *nvmlErrorString(int code) { return code ? "fake NVML error" : "success"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER return put(to, size, "580.00.00"); }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER *count = gpu_count; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t *gpu) {
    ENTER if (index >= gpu_count) return INVALID_ARGUMENT;
    *gpu = &handles[index];
    return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, gpu_t *gpu) {
    ENTER for (unsigned i = 0; i < gpu_count; i++)
        if (!strcmp(uuid, gpus[i].uuid)) { *gpu = &handles[i]; return SUCCESS; }
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(gpu_t gpu, unsigned *index) { ENTER_GPU (void)row; *index = gpu->index; return SUCCESS; }
int nvmlDeviceGetUUID(gpu_t gpu, char *to, unsigned size) { ENTER_GPU return put(to, size, row->uuid); }
int nvmlDeviceGetName(gpu_t gpu, char *to, unsigned size) { ENTER_GPU return put(to, size, row->name); }
int nvmlDeviceGetMemoryInfo(gpu_t gpu, struct memory *memory) {
    ENTER_GPU bytes_t used = used_bytes(gpu->index) + row->reserved;  /* the old call counts the driver's own as used */
    *memory = (struct memory){row->total, row->total - used, used};
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(gpu_t gpu, struct memory_v2 *memory) {
    ENTER_GPU if (memory->version != 0x02000028) return VERSION_MISMATCH;
    bytes_t used = used_bytes(gpu->index);
    *memory = (struct memory_v2){memory->version, row->total, row->reserved, row->total - row->reserved - used, used};
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(gpu_t gpu, unsigned percent[2]) {
    ENTER_GPU percent[0] = row->util;
    percent[1] = 0;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(gpu_t gpu, int sensor, unsigned *temp_c) {
    ENTER_GPU if (sensor) return INVALID_ARGUMENT;
    *temp_c = row->temp_c;
    return SUCCESS;
}
int nvmlDeviceGetTemperatureV(gpu_t gpu, unsigned reading[3]) {  /* version, sensor, degrees */
    ENTER_GPU if (reading[0] != 0x0100000C) return VERSION_MISMATCH;
    reading[2] = row->temp_c;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(gpu_t gpu, unsigned *power_mw) { ENTER_GPU *power_mw = row->power_mw; return SUCCESS; }
int nvmlDeviceGetPciInfo_v3(gpu_t gpu, struct pci *pci) {
    ENTER_GPU (void)row;
    memset(pci, 0, sizeof *pci);
    pci->bus = gpu->index + 1;
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}
int nvmlDeviceGetPersistenceMode(gpu_t gpu, unsigned *on) { ENTER_GPU *on = row->persistence; return SUCCESS; }
int nvmlDeviceGetComputeMode(gpu_t gpu, unsigned *mode) { ENTER_GPU *mode = row->compute; return SUCCESS; }
int nvmlDeviceGetMigMode(gpu_t gpu, unsigned *current, unsigned *pending) {
    ENTER_GPU *current = *pending = row->mig;
    return SUCCESS;
}

/* *count holds the room in `to` on the way in; too little (or none, to ask for the size) is answered with the need. */
static int list(gpu_t gpu, char kind, unsigned *count, struct process *to) {
    struct holder found[MAX_HOLDERS];
    unsigned room = *count;
    *count = holders(gpu->index, kind, found);
    if (*count > room) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) to[i] = (struct process){found[i].pid, found[i].bytes, ~0U, ~0U};
    return SUCCESS;
}
#define LIST(function, kind) \
    int function(gpu_t gpu, unsigned *count, struct process *to) { ENTER_GPU (void)row; return list(gpu, kind, count, to); }
LIST(nvmlDeviceGetComputeRunningProcesses_v3, 'C')
LIST(nvmlDeviceGetComputeRunningProcesses_v2, 'C')
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G')
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G')
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M')
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M')
