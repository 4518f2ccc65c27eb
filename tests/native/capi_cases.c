// Sequences from public reports through the C API. LIBRARY cycles|info|card|caps|churn|faults|devices|beside [HOW]
#include "capi.h"

enum { MOST = 256 };

static void *garbage[MOST];
static int dropped, collections;

static struct cenote_stats stats_of(int device) {
    struct cenote_stats stats;
    stats.size = sizeof stats;
    CHECK(api.stats(device, &stats));
    return stats;
}

// What must hold after every call: nothing below zero, nothing above the limit, and live memory is memory that is held.
static struct cenote_stats sound(int device) {
    struct cenote_stats stats = stats_of(device);
    struct cenote_count counts[] = {stats.allocated_bytes, stats.requested_bytes, stats.blocks, stats.reserved_bytes};
    for (int i = 0; i < 4; i++) {
        REQUIRE(counts[i].current == counts[i].allocated - counts[i].freed);
        REQUIRE(counts[i].current <= counts[i].peak && counts[i].peak < (1ULL << 62));
    }
    REQUIRE(stats.reserved_bytes.current <= stats.limit_bytes);
    REQUIRE(stats.requested_bytes.current <= stats.allocated_bytes.current);
    REQUIRE(stats.allocated_bytes.current <= stats.reserved_bytes.current);
    return stats;
}

static int collect(int device, size_t size, void *user) {
    int freed = dropped;
    REQUIRE(device == 0 && size == 64 * MiB && !user);
    collections++;
    while (dropped) CHECK(api.free(garbage[--dropped]));
    return freed;
}

// C09: objects that refer to themselves are dropped, and nobody frees their tensors before the collector runs.
static void cycles(int has_collector) {
    int made = 0;
    if (has_collector) api.on_oom(collect, NULL);
    while (made < 100 && api.alloc(64 * MiB, 0, NULL, &garbage[dropped]) == CENOTE_OK) {
        dropped++, made++;
        sound(0);
    }
    say("made", (unsigned long long)made);
    say("live", stats_of(0).blocks.current);
    say("collections", (unsigned long long)collections);
    while (dropped) CHECK(api.free(garbage[--dropped]));
    say("live_at_last", stats_of(0).allocated_bytes.current);
    api.trim();
    say("reserved_at_last", stats_of(0).reserved_bytes.current);
}

static size_t free_now(const char *when) {
    size_t free, total;
    char name[64];
    CHECK(cuMemGetInfo_v2(&free, &total));
    REQUIRE(free <= total);
    snprintf(name, sizeof name, "total_%s", when);
    say(name, total);
    return free;
}

// C34 (d), (e): what the engine keeps is free to the program, which may take it by any call; its addresses are no memory.
static void info(void) {
    size_t first = free_now("first");
    void *block = get(4 * GiB, NULL);
    say("live", first - free_now("live"));
    CHECK(api.free(block));
    CHECK(cuCtxSynchronize());
    size_t cached = free_now("cached");
    say("cached", first - cached);
    say("kept", stats_of(0).reserved_bytes.current);
    CUdeviceptr all = take(cached);
    say("reserved", sound(0).reserved_bytes.current);
    CHECK(cuMemFree_v2(all));
}

// C34 (a), (b): all that the limit and the card allow, and not more.
static void card(size_t most) {
    void *none;
    get(2 * MiB, NULL);
    say("limit", stats_of(0).limit_bytes);
    get(most - 2 * MiB, NULL);
    say("reserved", sound(0).reserved_bytes.current);
    EXPECT(CENOTE_OUT_OF_MEMORY, api.alloc(2 * MiB, 0, NULL, &none));
    size_t free = free_now("full");
    say("free", free);
}

// C34 (f): a program that caps itself at what is free and what it has.
static void caps(void) {
    for (size_t held = 0; held < 6 * GiB; held += 2 * GiB) {
        say("cap", free_now("now") + held);
        get(2 * GiB, NULL);
    }
}

// C35 (a): two hundred rounds, on one stream and on two that take turns.
static void churn(void) {
    CUstream streams[] = {NULL, new_stream()};
    for (int two = 0; two < 2; two++) {
        for (int round = 0; round < 200; round++) {
            void *block = get(32 * MiB, streams[round % (1 + two)]);
            sound(0);
            CHECK(api.free(block));
            sound(0);
        }
    }
    // (e): an address that nobody knows changes nothing.
    struct cenote_stats before = stats_of(0), after;
    EXPECT(CENOTE_INVALID_VALUE, api.free(&before));
    after = stats_of(0);
    after.invalid_frees = before.invalid_frees;
    say("unchanged", !memcmp(&before, &after, sizeof before));
    say("live", after.allocated_bytes.current);
    say("peak", after.reserved_bytes.peak);
}

// C35 (f): a call of the driver fails after the memory was made.
static void faults(void) {
    size_t before, after, total;
    CHECK(cuMemGetInfo_v2(&before, &total));
    int failed = 0;
    for (int round = 0; round < 10; round++) {
        void *block = &block;
        int code = api.alloc(32 * MiB, 0, NULL, &block);
        sound(0);
        if (code) {
            failed++;
            REQUIRE(!block && !stats_of(0).allocated_bytes.current);
        } else {
            CHECK(api.free(block));
        }
        api.trim();
        sound(0);
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("failed", (unsigned long long)failed);
    say("back", before == after);
    say("reserved", stats_of(0).reserved_bytes.current);
}

static void *free_without_context(void *block) {
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    REQUIRE(!context);
    CHECK(api.free(block));
    return NULL;
}

// C35 (d): taken on device 0, freed while 1 is current, and from a thread that has no context.
static void devices(void) {
    pthread_t thread;
    void *other;
    start(1);
    CHECK(api.alloc(64 * MiB, 1, NULL, &other));
    start(0);
    void *blocks[] = {get(32 * MiB, NULL), get(32 * MiB, NULL)};
    start(1);
    CHECK(api.free(blocks[0]));
    say("first_0", sound(0).allocated_bytes.current);
    say("first_1", sound(1).allocated_bytes.current);
    CHECK(pthread_create(&thread, NULL, free_without_context, blocks[1]));
    CHECK(pthread_join(thread, NULL));
    say("second_0", sound(0).allocated_bytes.current);
    say("second_1", sound(1).allocated_bytes.current);
    say("reserved_1", sound(1).reserved_bytes.current);
}

static void *engine_side(void *context) {
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    stream = new_stream();
    for (int i = 0; i < 2000; i++) {
        void *block;
        int code = api.alloc((size_t)(8 + i % 5 * 8) * MiB, 0, stream, &block);
        REQUIRE(code == CENOTE_OK || code == CENOTE_OUT_OF_MEMORY);
        CHECK(api.free(block));
    }
    return NULL;
}

static void *doors_side(void *context) {
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 2000; i++) {
        CUdeviceptr block = 0;
        int code = cuMemAlloc_v2(&block, (size_t)(8 + i % 7 * 6) * MiB);
        REQUIRE(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
        if (!code) CHECK(cuMemFree_v2(block));
    }
    return NULL;
}

// Both ways in at once under one limit, each asking the other for memory: neither waits for the other for ever.
static void beside(void) {
    pthread_t team[4];
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&team[i], NULL, i % 2 ? doors_side : engine_side, context));
    for (int i = 0; i < 4; i++) CHECK(pthread_join(team[i], NULL));
    say("live", sound(0).allocated_bytes.current);
    // All of the limit, by either way.
    CHECK(cuMemFree_v2(take(96 * MiB)));
    CHECK(api.free(get(96 * MiB, NULL)));
    say("done", 1);
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    const char *how = argc > 3 ? argv[3] : "";
    size_t free, total;
    start(0);
    open_api(argv[1]);
    // As the runtime of a program does: where the library is preloaded, it is awake from here on.
    CHECK(cuMemGetInfo_v2(&free, &total));
    if (!strcmp(argv[2], "cycles")) cycles(!strcmp(how, "collector"));
    if (!strcmp(argv[2], "info")) info();
    if (!strcmp(argv[2], "card")) card((size_t)atol(how) * MiB);
    if (!strcmp(argv[2], "caps")) caps();
    if (!strcmp(argv[2], "churn")) churn();
    if (!strcmp(argv[2], "faults")) faults();
    if (!strcmp(argv[2], "devices")) devices();
    if (!strcmp(argv[2], "beside")) beside();
    return 0;
}
