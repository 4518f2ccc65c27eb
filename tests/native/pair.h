// Two processes: a producer that was started, and a consumer that it starts before it touches CUDA, with or without cenote.
#pragma once
#include "cu.h"
#include <signal.h>
#include <sys/wait.h>

typedef struct {
    pid_t pid;
    int to, from;
} Peer;

// Runs this program again as "consumer", with the other arguments, talking over descriptors 10 and 11.
static inline Peer start_consumer(char **argv, int hooked) {
    int down[2], up[2];
    CHECK(pipe(down));
    CHECK(pipe(up));
    Peer peer = {fork(), down[1], up[0]};
    if (peer.pid == 0) {
        dup2(down[0], 10);
        dup2(up[1], 11);
        for (int i = 3; i < 10; i++) close(i);
        if (!hooked) unsetenv("LD_PRELOAD");
        argv[0] = (char *)"consumer";
        execv("/proc/self/exe", argv);
        _exit(4);
    }
    close(down[0]);
    close(up[1]);
    return peer;
}

static inline Peer the_producer(void) {
    Peer peer = {getppid(), 11, 10};
    return peer;
}

static inline void tell(Peer peer, const void *data, size_t bytes) { REQUIRE(write(peer.to, data, bytes) == (ssize_t)bytes); }

static inline void hear(Peer peer, void *data, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        ssize_t more = read(peer.from, (char *)data + got, bytes - got);
        REQUIRE(more > 0);
        got += (size_t)more;
    }
}

static inline void tell_turn(Peer peer) { tell(peer, "t", 1); }

static inline void await_turn(Peer peer) {
    char turn;
    hear(peer, &turn, 1);
}

static inline int end_of(Peer peer) {
    int status;
    REQUIRE(waitpid(peer.pid, &status, 0) == peer.pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
