/* Clients of a proxy: one thread, epoll, the same bytes to everybody.

   load closed  PORT REQUEST CONNECTIONS COUNT       each connection asks again once it has its answer
   load streams PORT REQUEST CONNECTIONS             each asks once, all begin within SPREAD_NS
   load hold    PORT REQUEST CONNECTIONS             each asks once; "held" is said when all have asked; ends when all
                                                     are answered, or when standard input does
   load latency COUNT REQUEST PORT...                one connection each, turn by turn

REQUEST is a file with whole requests, one behind the other; they're sent in turn. One line of JSON says what came of it. An answer that isn't a 200, or that is
cut short, is an error. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 8192, EVENTS = 256, PORTS = 16, WARM_UP = 50, QUIET_LIMIT_MS = 20000, BATCH = 50 };
static const int64_t SPREAD_NS = 200000000, SECOND_NS = 1000000000;
static const char EVENT[] = "data: ", END[] = "\r\n0\r\n\r\n";

struct client {
    int fd;
    const struct request *request;
    size_t sent_bytes;
    char head[HEAD + 1];
    size_t head_bytes; /* collected; the whole answer is no longer than `head` unless it's chunked */
    int chunked, inside; /* `inside`: the head is through */
    long left_bytes;
    size_t in_event, in_end; /* how much of these words was just seen */
};

struct request {
    const char *data;
    size_t bytes;
};

static struct request *requests;
static long request_count;
static int poll_fd, port;
static long asked, wanted, answered, errors, events, open_clients;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int dial(int to) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(to)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&place, sizeof place) < 0) die("connect");
    return fd;
}

static void watch(struct client *client, int how, uint32_t what) {
    struct epoll_event event = {.events = what, .data.ptr = client};
    if (epoll_ctl(poll_fd, how, client->fd, &event) < 0) die("epoll_ctl");
}

static void leave(struct client *client) {
    close(client->fd);
    client->fd = -1;
    open_clients--;
}

static void send_more(struct client *client) {
    const struct request *whole = client->request;
    int waited = client->sent_bytes > 0;
    while (client->sent_bytes < whole->bytes) {
        ssize_t sent = send(client->fd, whole->data + client->sent_bytes, whole->bytes - client->sent_bytes,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            watch(client, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (sent < 0) {
            errors++;
            leave(client);
            return;
        }
        client->sent_bytes += sent;
    }
    if (waited) watch(client, EPOLL_CTL_MOD, EPOLLIN);
}

static void ask(struct client *client) {
    client->sent_bytes = client->head_bytes = client->in_event = client->in_end = 0;
    client->inside = client->chunked = 0;
    client->left_bytes = 0;
    client->request = &requests[asked % request_count];
    asked++;
    send_more(client);
}

/* Counts server-sent events, and finds the end of a chunked answer. Neither word repeats its first byte soon. */
static int scan(struct client *client, const char *data, size_t size) {
    for (size_t at = 0; at < size; at++) {
        client->in_event = data[at] == EVENT[client->in_event] ? client->in_event + 1 : data[at] == EVENT[0];
        if (client->in_event == sizeof EVENT - 1) {
            events++;
            client->in_event = 0;
        }
        client->in_end = data[at] == END[client->in_end] ? client->in_end + 1 : data[at] == END[0];
        if (client->in_end == sizeof END - 1) return 1;
    }
    return 0;
}

/* 1: the answer is whole. 0: more must come. -1: it's none. */
static int take(struct client *client, const char *data, size_t size) {
    size_t room = HEAD - client->head_bytes, had = client->head_bytes, behind;
    char *end, *field;
    if (client->inside && client->chunked) return scan(client, data, size);
    if (client->inside) return (client->left_bytes -= size) <= 0;
    size = size < room ? size : room;
    memcpy(client->head + had, data, size);
    client->head_bytes += size;
    client->head[client->head_bytes] = 0;
    end = strstr(client->head, "\r\n\r\n");
    if (end == NULL) return client->head_bytes == HEAD ? -1 : 0;
    if (strncmp(client->head, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "%.12s ... %.300s\n", client->head, end + 4);
        return -1;
    }
    client->inside = 1;
    behind = client->head + client->head_bytes - (end + 4);
    field = strcasestr(client->head, "\r\ncontent-length:");
    client->chunked = field == NULL || field > end;
    if (client->chunked) {
        client->in_end = 2; /* of an empty body, the end's first bytes are those of the head */
        return scan(client, end + 4, behind);
    }
    client->left_bytes = strtol(field + 17, NULL, 10) - (long)behind;
    return client->left_bytes <= 0;
}

static void hear(struct client *client, int again) {
    static char data[1 << 16];
    ssize_t got = recv(client->fd, data, sizeof data, MSG_DONTWAIT);
    int whole;
    if (got < 0 && errno == EAGAIN) return;
    whole = got > 0 ? take(client, data, got) : -1;
    if (whole == 0) return;
    if (whole > 0) answered++;
    if (whole < 0) errors++;
    if (whole > 0 && again && asked < wanted)
        ask(client);
    else
        leave(client);
}

/* Until every client has left, or standard input ends where that is listened to. */
static void play(int again, int listens) {
    struct epoll_event found[EVENTS];
    if (listens) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, 0, &event);
    }
    while (open_clients > 0) {
        int ready = epoll_wait(poll_fd, found, EVENTS, listens ? -1 : QUIET_LIMIT_MS);
        if (ready == 0) {
            fprintf(stderr, "nothing came for %d ms\n", QUIET_LIMIT_MS);
            errors += open_clients;
            return;
        }
        for (int at = 0; at < ready; at++) {
            struct client *client = found[at].data.ptr;
            if (client == NULL) return;
            if (client->fd >= 0 && found[at].events & EPOLLOUT) send_more(client);
            if (client->fd >= 0 && found[at].events & ~EPOLLOUT) hear(client, again);
        }
    }
}

static struct client *connect_all(int connections, int64_t spread_ns) {
    struct client *clients = calloc(connections, sizeof *clients);
    if (clients == NULL) die("calloc");
    for (int at = 0; at < connections; at++) {
        clients[at].fd = dial(port);
        watch(&clients[at], EPOLL_CTL_ADD, EPOLLIN);
        open_clients++;
        ask(&clients[at]);
        if (spread_ns > 0) {
            struct timespec pause = {.tv_nsec = spread_ns / connections};
            nanosleep(&pause, NULL);
        } else if (at % BATCH == BATCH - 1) {
            usleep(2000); /* the listener's queue is no part of what is measured */
        }
    }
    return clients;
}

static void report(int64_t began_ns) {
    printf("{\"asked\": %ld, \"answered\": %ld, \"errors\": %ld, \"events\": %ld, \"wall_s\": %.6f}\n", asked, answered,
           errors, events, (double)(now_ns() - began_ns) / SECOND_NS);
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void latency(long count, int ports, char **words) {
    static struct client clients[PORTS];
    double *times_us[PORTS];
    for (int at = 0; at < ports; at++) {
        clients[at].fd = dial(atoi(words[at]));
        watch(&clients[at], EPOLL_CTL_ADD, EPOLLIN);
        times_us[at] = calloc(count, sizeof **times_us);
    }
    for (long turn = -WARM_UP; turn < count; turn++) {
        for (int at = 0; at < ports; at++) {
            static char data[1 << 16];
            int64_t began_ns = now_ns();
            int whole = 0;
            ask(&clients[at]);
            while (whole == 0) {
                ssize_t got = recv(clients[at].fd, data, sizeof data, 0);
                whole = got > 0 ? take(&clients[at], data, got) : -1;
            }
            if (whole < 0) {
                fprintf(stderr, "no whole answer on port %s\n", words[at]);
                exit(1);
            }
            if (turn >= 0) times_us[at][turn] = (double)(now_ns() - began_ns) / 1000;
        }
    }
    for (int at = 0; at < ports; at++) {
        qsort(times_us[at], count, sizeof **times_us, by_size);
        printf("%s%.2f%s", at ? ", " : "[", times_us[at][count / 2], at == ports - 1 ? "]\n" : "");
    }
}

static void read_requests(const char *name) {
    FILE *file = fopen(name, "rb");
    size_t size;
    char *data, *end;
    if (file == NULL) die(name);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    data = malloc(size + 1);
    if (fread(data, 1, size, file) != size) die(name);
    fclose(file);
    data[size] = 0;
    end = data + size;
    while (data < end) {
        char *body = strstr(data, "\r\n\r\n") + 4, *length = strcasestr(data, "\r\ncontent-length:");
        requests = realloc(requests, (request_count + 1) * sizeof *requests);
        requests[request_count].data = data;
        requests[request_count].bytes = body + strtoul(length + 17, NULL, 10) - data;
        data += requests[request_count++].bytes;
    }
}

int main(int count, char **words) {
    const char *mode = count > 4 ? words[1] : "";
    int64_t began_ns = now_ns();
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    poll_fd = epoll_create1(0);
    if (count > 4) read_requests(words[3]);
    port = count > 4 ? atoi(words[2]) : 0;
    if (strcmp(mode, "closed") == 0 && count == 6) {
        wanted = atol(words[5]);
        connect_all(atoi(words[4]), 0);
        play(1, 0);
        report(began_ns);
    } else if (strcmp(mode, "streams") == 0 && count == 5) {
        connect_all(atoi(words[4]), SPREAD_NS);
        play(0, 0);
        report(began_ns);
    } else if (strcmp(mode, "hold") == 0 && count == 5) {
        connect_all(atoi(words[4]), 0);
        puts("held");
        fflush(stdout);
        play(0, 1);
        report(began_ns);
    } else if (strcmp(mode, "latency") == 0 && count - 4 <= PORTS) {
        latency(port, count - 4, words + 4);
    } else {
        fputs("usage: see the first lines of load.c\n", stderr);
        return 2;
    }
    return 0;
}
