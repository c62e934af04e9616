/* A model server that costs next to nothing: one thread, epoll.

   upstream PORT

A request whose body says "bench-stream MICROSECONDS EVENTS" near its beginning is answered by that many server-sent
events at that pace; one that says "bench-silent" is answered once SIGUSR1 comes; any other gets a small answer at
once. It prints its port when it listens. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 8192, EVENTS = 256, BACKLOG = 4096, LONGEST = 400, SECOND_NS = 1000000000 };
enum what { READING, SILENT, STREAMING };

struct client {
    int fd;
    enum what what;
    char kept[KEPT + 1]; /* the head and the first bytes of the body */
    size_t kept_bytes;
    size_t head_bytes;
    size_t left_bytes; /* of the body */
    int64_t due_ns;
    int64_t pace_ns;
    int events_left;
    struct client *before, *after; /* in the list of those that stream, sorted by due_ns; or of those freed */
};

static const char ANSWER[] =
    "{\"id\":\"chatcmpl-%08x\",\"object\":\"chat.completion\",\"created\":1764460800,\"model\":\"served\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"It is noon%.*s\"},"
    "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":%d,\"total_tokens\":%d}}";
static const char SMALL_HEAD[] =
    "HTTP/1.1 200 OK\r\ndate: %s\r\nserver: bench\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n";
static const char EVENT[] =
    "data: {\"id\":\"chatcmpl-8f14e45f\",\"object\":\"chat.completion.chunk\",\"created\":1764460800,"
    "\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" 00000\"},\"finish_reason\":null}]}\n\n";
static const char LAST_EVENT[] =
    "data: {\"id\":\"chatcmpl-8f14e45f\",\"object\":\"chat.completion.chunk\",\"created\":1764460800,"
    "\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":200,\"total_tokens\":242}}\n\ndata: [DONE]\n\n";
static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nserver: bench\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

static char event[1024], last_event[1024], more_words[LONGEST + 1];
static int event_bytes, last_event_bytes;
static int poll_fd, timer_fd;
static struct client streams = {.before = &streams, .after = &streams}; /* the list's ends */
static struct client *silent, *freed;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void watch(int fd, void *who) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void unlink_client(struct client *client) {
    if (client->before != NULL) client->before->after = client->after;
    if (client->after != NULL) client->after->before = client->before;
    if (silent == client) silent = client->after;
    client->before = client->after = NULL;
}

/* Its memory stays until the events read with this one are through: one of them may be its own. */
static void drop(struct client *client) {
    unlink_client(client);
    close(client->fd);
    client->fd = -1;
    client->after = freed;
    freed = client;
}

/* Small pieces to a reader that keeps up: what doesn't fit says that the bench is wrong, so it must not go unseen. */
static int say(struct client *client, const char *data, int size) {
    if (send(client->fd, data, size, MSG_NOSIGNAL) == size) return 1;
    drop(client);
    return 0;
}

static void arm_timer(void) {
    struct itimerspec when = {0};
    if (streams.after != &streams) {
        when.it_value.tv_sec = streams.after->due_ns / SECOND_NS;
        when.it_value.tv_nsec = streams.after->due_ns % SECOND_NS;
    }
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void queue_stream(struct client *client) {
    struct client *before = streams.before;
    while (before != &streams && before->due_ns > client->due_ns) before = before->before;
    client->before = before;
    client->after = before->after;
    before->after->before = client;
    before->after = client;
}

/* No event says what the one before it said: some proxies take that for a model that is stuck. */
static void next_event(void) {
    char *digit = strstr(event, "content\":\" ") + 11 + 4;
    while (*digit == '9') *digit-- = '0';
    if (*digit != ' ') ++*digit;
}

static void step_streams(void) {
    int64_t now = now_ns();
    while (streams.after != &streams && streams.after->due_ns <= now) {
        struct client *client = streams.after;
        unlink_client(client);
        if (--client->events_left > 0) {
            next_event();
            if (!say(client, event, event_bytes)) continue;
            client->due_ns += client->pace_ns;
            queue_stream(client);
        } else if (say(client, last_event, last_event_bytes)) {
            client->what = READING;
        }
    }
    arm_timer();
}

static int say_small(struct client *client) {
    static unsigned number;
    static time_t told_s;
    static char date[64];
    char body[2048], data[4096];
    time_t now_s = time(NULL);
    int words, size, head;
    if (now_s != told_s) strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now_s));
    told_s = now_s;
    words = ++number * 37 % LONGEST;
    size = sprintf(body, ANSWER, number, words, more_words, words / 5 + 3, words / 5 + 45);
    head = sprintf(data, SMALL_HEAD, date, size);
    memcpy(data + head, body, size);
    return say(client, data, head + size);
}

static void answer(struct client *client) {
    char *asked;
    long pace_us;
    client->kept[client->kept_bytes] = 0;
    asked = strstr(client->kept + client->head_bytes, "bench-s");
    client->kept_bytes = client->head_bytes = 0;
    if (asked == NULL) {
        say_small(client);
    } else if (sscanf(asked, "bench-stream %ld %d", &pace_us, &client->events_left) == 2) {
        client->what = STREAMING;
        client->pace_ns = pace_us * 1000;
        client->due_ns = now_ns() + client->pace_ns;
        if (!say(client, STREAM_HEAD, sizeof STREAM_HEAD - 1)) return;
        queue_stream(client);
        arm_timer();
    } else {
        client->what = SILENT;
        client->after = silent;
        if (silent != NULL) silent->before = client;
        silent = client;
    }
}

static void answer_silent(void) {
    while (silent != NULL) {
        struct client *client = silent;
        unlink_client(client);
        client->what = READING;
        say_small(client);
    }
}

/* Whether a whole head is there; sets how much of the body is still to come. */
static int read_head(struct client *client) {
    char *end, *field;
    client->kept[client->kept_bytes] = 0;
    end = strstr(client->kept, "\r\n\r\n");
    if (end == NULL) return 0;
    client->head_bytes = end + 4 - client->kept;
    field = strcasestr(client->kept, "\r\ncontent-length:");
    client->left_bytes = field != NULL && field < end ? strtoul(field + 17, NULL, 10) : 0;
    client->left_bytes -= client->kept_bytes - client->head_bytes;
    return 1;
}

static void receive(struct client *client) {
    static char data[1 << 18];
    ssize_t got = recv(client->fd, data, sizeof data, 0);
    size_t room = KEPT - client->kept_bytes, kept;
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) drop(client);
        return;
    }
    if (client->what != READING) { /* nothing is awaited */
        drop(client);
        return;
    }
    kept = (size_t)got < room ? (size_t)got : room;
    memcpy(client->kept + client->kept_bytes, data, kept);
    client->kept_bytes += kept;
    if (client->head_bytes > 0) {
        client->left_bytes -= got;
    } else if (read_head(client)) {
        client->left_bytes -= got - kept;
    } else {
        return;
    }
    if (client->left_bytes == 0) answer(client);
}

static void take_clients(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct client *client = calloc(1, sizeof *client);
        if (client == NULL) die("calloc");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        client->fd = fd;
        watch(fd, client);
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof place;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&place, size) < 0 || listen(fd, BACKLOG) < 0) die("listen");
    getsockname(fd, (struct sockaddr *)&place, &size);
    printf("%d\n", ntohs(place.sin_port));
    fflush(stdout);
    return fd;
}

static int chunk(char *into, const char *data, const char *end) {
    return sprintf(into, "%zx\r\n%s\r\n%s", strlen(data), data, end);
}

int main(int count, char **words) {
    int listener, signal_fd, ready;
    sigset_t told;
    struct epoll_event found[EVENTS];
    for (int at = 0; at < LONGEST; at++) more_words[at] = " word"[at % 5];
    event_bytes = chunk(event, EVENT, "");
    last_event_bytes = chunk(last_event, LAST_EVENT, "0\r\n\r\n");
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, NULL);
    poll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    signal_fd = signalfd(-1, &told, SFD_NONBLOCK);
    listener = listen_on(count > 1 ? atoi(words[1]) : 0);
    watch(listener, &listener);
    watch(timer_fd, &timer_fd);
    watch(signal_fd, &signal_fd);
    while ((ready = epoll_wait(poll_fd, found, EVENTS, -1)) >= 0 || errno == EINTR) {
        for (int at = 0; at < ready; at++) {
            void *who = found[at].data.ptr;
            uint64_t ignored[16];
            if (who == &listener) {
                take_clients(listener);
            } else if (who == &timer_fd) {
                if (read(timer_fd, ignored, 8) == 8) step_streams();
            } else if (who == &signal_fd) {
                if (read(signal_fd, ignored, sizeof ignored) > 0) answer_silent();
            } else if (((struct client *)who)->fd >= 0) {
                receive(who);
            }
        }
        while (freed != NULL) {
            struct client *next = freed->after;
            free(freed);
            freed = next;
        }
    }
    die("epoll_wait");
}
