// What a trace is made of: blocks of the C API and of the driver, streams, threads, marks; and the ways out. LIBRARY api|shared|threads|driver|kill|_exit
#include "capi.h"

#include <signal.h>

enum { THREADS = 8, ROUNDS = 5000, LIVE = 16 };

static unsigned long long next(unsigned long long *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

// Blocks of all sizes on two streams, some left at the end.
static void steps(int count) {
    CUstream streams[] = {NULL, new_stream()};
    void *blocks[LIVE] = {0};
    unsigned long long state = 7;
    for (int i = 0; i < count; i++) {
        void **slot = &blocks[next(&state) % LIVE];
        if (*slot) CHECK(api.free(*slot));
        *slot = get(1 + next(&state) % (4 * MiB), streams[i & 1]);
        if (i % 1000 == 0) api.mark("step");
    }
    struct cenote_stats stats = stats_now();
    say("peak", stats.requested_bytes.peak);
    say("allocated", stats.blocks.allocated);
    say("freed", stats.blocks.freed);
    fflush(stdout);
}

static void *work(void *stream) {
    void *blocks[LIVE] = {0};
    unsigned long long state = (uintptr_t)stream | 1;
    for (int i = 0; i < ROUNDS; i++) {
        void **slot = &blocks[next(&state) % LIVE];
        if (*slot) CHECK(api.free(*slot));
        *slot = get((size_t)512 << (next(&state) & 15), (CUstream)stream);
    }
    for (int i = 0; i < LIVE; i++) CHECK(api.free(blocks[i]));
    return NULL;
}

static void threads(void) {
    pthread_t team[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&team[i], NULL, work, new_stream()));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(team[i], NULL));
    struct cenote_stats stats = stats_now();
    say("allocated", stats.blocks.allocated);
    say("peak", stats.requested_bytes.peak);
}

static void shared(void) {
    void *block = get(MiB, NULL);
    CHECK(api.record_use(block, new_stream()));
    CHECK(api.free(block));
    CHECK(api.free(get(MiB, NULL)));
}

static void driver(void) {
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++) CHECK(cuMemAlloc_v2(&blocks[i], (size_t)(i + 1) * MiB));
    for (int i = 0; i < 4; i++) CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuMemAlloc_v2(blocks, 3 * MiB));
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    open_api(argv[1]);
    start(0);
    if (!strcmp(argv[2], "api")) steps(20000);
    if (!strcmp(argv[2], "shared")) shared();
    if (!strcmp(argv[2], "threads")) threads();
    if (!strcmp(argv[2], "driver")) driver();
    if (!strcmp(argv[2], "kill")) {
        steps(20000);
        usleep(400000);
        raise(SIGKILL);
    }
    if (!strcmp(argv[2], "_exit")) {
        steps(300);
        _exit(0);
    }
    return 0;
}
