// Codes, sizes, addresses and counters of the C API. LIBRARY codes|sizes|addresses|peaks|versions
#include "capi.h"

static void codes(void) {
    void *block = &block;
    size_t free_bytes, total;
    say("before_init", (unsigned long long)api.alloc(512, 0, NULL, &block));
    REQUIRE(!block);
    start(0);
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    EXPECT(CENOTE_INVALID_VALUE, api.alloc(512, 0, NULL, NULL));
    EXPECT(CENOTE_INVALID_VALUE, api.alloc(0, 0, NULL, &block));
    EXPECT(CENOTE_INVALID_DEVICE, api.alloc(512, 1, NULL, &block));
    EXPECT(CENOTE_INVALID_DEVICE, api.alloc(512, -1, NULL, &block));
    EXPECT(CENOTE_INVALID_DEVICE, api.alloc(512, 99, NULL, &block));
    EXPECT(CENOTE_INVALID_VALUE, api.alloc(512, 0, CU_STREAM_PER_THREAD, &block));
    EXPECT(CENOTE_OUT_OF_MEMORY, api.alloc(total + 1, 0, NULL, &block));
    EXPECT(CENOTE_OUT_OF_MEMORY, api.alloc(SIZE_MAX, 0, NULL, &block));
    REQUIRE(!block);
    EXPECT(CENOTE_OK, api.free(NULL));
    EXPECT(CENOTE_INVALID_VALUE, api.free(&block));
    void *one = get(1, NULL), *other = get(1, CU_STREAM_LEGACY);
    CHECK(api.free(one));
    EXPECT(CENOTE_INVALID_VALUE, api.free(one));
    EXPECT(CENOTE_INVALID_VALUE, api.free((char *)other + 512));
    EXPECT(CENOTE_INVALID_VALUE, api.record_use(one, NULL));
    CHECK(api.free(other));
    say("invalid_frees", stats_now().invalid_frees);
    // Frees without a context: any thread may.
    CHECK(cuCtxSetCurrent(NULL));
    CHECK(api.free(get(4 * MiB, NULL)));
    REQUIRE(api.trim() > 0);
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    REQUIRE(!context);
    say("live", stats_now().allocated_bytes.current);
}

// C31; pytorch #153109: the size at free is not the one at the allocation.
static void sizes(void) {
    start(0);
    void *neighbour = api.torch_alloc(4096, 0, NULL);
    CHECK(simcuda_kernel(NULL, 1, at(neighbour), 4096, 7));
    api.torch_free(api.torch_alloc(4096, 0, NULL), 512, 0, NULL);
    api.torch_free(api.torch_alloc(512, 0, NULL), 4096, 0, NULL);
    say("mismatches", stats_now().size_mismatches);
    say("neighbour", (unsigned long long)simcuda_check(at(neighbour), 4096, 7));
    api.torch_free(neighbour, 4096, 0, NULL);
    // A device that it is not on.
    api.torch_free(api.torch_alloc(512, 0, NULL), 512, 5, NULL);
    say("mismatches_at_last", stats_now().size_mismatches);
    say("live", stats_now().allocated_bytes.current);
}

// C24; onnxruntime #12289, cudf #2915: textures need 512, one pool gave 256.
static void addresses(void) {
    static const size_t asked[] = {1, 100, 256, 300, 513, 4097, 1048832, 2 << 20, 3 << 20};
    enum { COUNT = sizeof asked / sizeof *asked };
    CUdeviceptr blocks[COUNT];
    start(0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i += round + 1) blocks[i] = at(get(asked[i], NULL));
        for (int i = 0; i < COUNT; i++) {
            REQUIRE(blocks[i] % 512 == 0);
            for (int k = 0; k < i; k++) {
                REQUIRE(blocks[i] + asked[i] <= blocks[k] || blocks[k] + asked[k] <= blocks[i]);
            }
            CHECK(simcuda_kernel(NULL, 1, blocks[i], asked[i], i));
        }
        for (int i = 0; i < COUNT; i++) REQUIRE(simcuda_check(blocks[i], asked[i], i));
        for (int i = 0; i < COUNT && !round; i += 2) CHECK(api.free((void *)(uintptr_t)blocks[i]));
    }
    say("requested", stats_now().requested_bytes.current);
    say("blocks", stats_now().blocks.current);
}

// C32 (2); pytorch #133281: reset the peak, 100 MiB, free, 40 MiB.
static void peaks(void) {
    start(0);
    CHECK(api.free(get(200 * MiB, NULL)));
    CHECK(api.reset_peaks(0));
    CHECK(api.free(get(100 * MiB, NULL)));
    get(40 * MiB, NULL);
    struct cenote_stats stats = stats_now();
    say("peak", stats.allocated_bytes.peak);
    say("current", stats.allocated_bytes.current);
    say("allocated", stats.allocated_bytes.allocated);
}

// A program that was built with an older or a newer header.
static void versions(void) {
    struct { struct cenote_stats stats; char more[64]; } newer;
    struct { size_t size; struct cenote_count allocated; uint64_t guard; } older;
    start(0);
    get(512, NULL);
    memset(&newer, 0xaa, sizeof newer);
    newer.stats.size = sizeof newer;
    CHECK(api.stats(0, &newer.stats));
    REQUIRE(newer.stats.size == sizeof newer.stats && newer.more[0] == (char)0xaa);
    older.size = offsetof(__typeof__(older), guard);
    older.guard = 42;
    CHECK(api.stats(0, (struct cenote_stats *)&older));
    REQUIRE(older.guard == 42 && older.allocated.current == 512 && older.size == offsetof(__typeof__(older), guard));
    newer.stats.size = 1;
    EXPECT(CENOTE_INVALID_VALUE, api.stats(0, &newer.stats));
    newer.stats.size = sizeof newer.stats;
    EXPECT(CENOTE_INVALID_DEVICE, api.stats(-1, &newer.stats));
    api.mark("warm-up");
    api.mark(NULL);
    say("marks", stats_now().marks);
    printf("version_%s 1\n", api.version());
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    open_api(argv[1]);
    // The driver is linked, and therefore mapped before cuInit.
    if (!strcmp(argv[2], "codes")) codes();
    if (!strcmp(argv[2], "sizes")) sizes();
    if (!strcmp(argv[2], "addresses")) addresses();
    if (!strcmp(argv[2], "peaks")) peaks();
    if (!strcmp(argv[2], "versions")) versions();
    return 0;
}
