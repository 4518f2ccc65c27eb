// Who may have a block next: streams, threads, captures. LIBRARY order|uses|threads|capture
#include "capi.h"

enum { THREADS = 8, LIVE = 16 };

// A freed block goes back to its own stream at once, and to another one never while the work runs.
static void order(void) {
    CUstream one = new_stream(), two = new_stream();
    void *block = get(8 * MiB, one);
    CHECK(simcuda_kernel(one, 200000, at(block), 8 * MiB, 1));
    CHECK(api.free(block));
    void *same = get(8 * MiB, one);
    say("same", same == block);
    CHECK(simcuda_kernel(one, 10, at(same), 8 * MiB, 2));
    CHECK(api.free(same));
    void *other = get(8 * MiB, two);
    say("other", other == block);
    CHECK(simcuda_kernel(two, 10, at(other), 8 * MiB, 3));
    say("right", (unsigned long long)simcuda_check(at(other), 8 * MiB, 3));
    CHECK(api.free(other));
}

static void uses(void) {
    CUstream one = new_stream(), two = new_stream();
    void *block = get(8 * MiB, one);
    CHECK(api.record_use(block, two));
    CHECK(simcuda_kernel(two, 200000, at(block), 8 * MiB, 1));
    CHECK(api.free(block));
    void *next = get(8 * MiB, one);
    say("early", next == block);
    CHECK(simcuda_kernel(one, 10, at(next), 8 * MiB, 2));
    CHECK(cuCtxSynchronize());
    CHECK(api.free(next));
    // The same through PyTorch's hook, which is also called for pointers that are not ours.
    block = get(8 * MiB, one);
    api.torch_record_stream(block, two);
    api.torch_record_stream(&block, two);
    CHECK(simcuda_kernel(two, 1000, at(block), 8 * MiB, 1));
    CHECK(api.free(block));
    CHECK(cuCtxSynchronize());
    api.trim();
    say("reserved", stats_now().reserved_bytes.current);
}

static void *work(void *stream) {
    void *blocks[LIVE] = {0};
    unsigned long long state = (uintptr_t)stream | 1;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        void **slot = &blocks[state >> 33 & (LIVE - 1)];
        if (*slot) CHECK(api.free(*slot));
        *slot = get((size_t)512 << (state >> 40 & 15), (CUstream)stream);
    }
    for (int i = 0; i < LIVE; i++) CHECK(api.free(blocks[i]));
    return NULL;
}

static void *free_it(void *block) {
    CHECK(api.free(block));
    return NULL;
}

static void threads(void) {
    pthread_t team[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&team[i], NULL, work, new_stream()));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(team[i], NULL));
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_create(team, NULL, free_it, get(4096, NULL)));
        CHECK(pthread_join(*team, NULL));
    }
    struct cenote_stats stats = stats_now();
    say("live", stats.allocated_bytes.current);
    say("blocks", stats.blocks.current);
    say("allocated", stats.blocks.allocated);
}

// What is allocated during a capture stays the graph's, whatever is freed afterwards.
static void capture(void) {
    CUstream stream = new_stream(), other = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    void *before = get(4 * MiB, stream);
    CHECK(simcuda_kernel(stream, 1, at(before), 4 * MiB, 1));
    api.torch_begin_allocate_to_pool(0, 7, 0, NULL);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    void *inside = get(8 * MiB, stream), *outside = get(8 * MiB, other);
    CHECK(simcuda_kernel(stream, 10, at(inside), 8 * MiB, 5));
    CHECK(simcuda_kernel(other, 10, at(outside), 8 * MiB, 6));
    CHECK(api.free(inside));
    void *reused = get(8 * MiB, stream);
    say("reused_inside", reused == inside);
    CHECK(api.free(reused));
    CHECK(api.free(before));
    CHECK(cuStreamEndCapture(stream, &graph));
    api.torch_end_allocate_to_pool(0, 7, 0);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    void *after = get(8 * MiB, stream);
    say("kept", after != inside);
    CHECK(simcuda_kernel(stream, 10, at(after), 8 * MiB, 9));
    CHECK(cuGraphLaunch(exec, stream));
    say("right", (unsigned long long)simcuda_check(at(after), 8 * MiB, 9));
    CHECK(cuStreamSynchronize(stream));
    CHECK(api.free(after));
    CHECK(api.free(outside));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    api.torch_release_pool(0, 7, 0);
    say("live", stats_now().allocated_bytes.current);
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    start(0);
    open_api(argv[1]);
    if (!strcmp(argv[2], "order")) order();
    if (!strcmp(argv[2], "uses")) uses();
    if (!strcmp(argv[2], "threads")) threads();
    if (!strcmp(argv[2], "capture")) capture();
    return 0;
}
