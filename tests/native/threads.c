// Many threads allocate, write, check and free: does anybody find somebody else's bytes? THREADS ROUNDS
#include "cu.h"

static CUcontext context;
static long rounds;

static void *work(void *id) {
    uint8_t mine = (uint8_t)(uintptr_t)id;
    CHECK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (long i = 0; i < rounds; i++) {
        size_t bytes = i % 3 ? 512 * (size_t)(1 + i % 9) : 3 * MiB;
        CUdeviceptr block = take(bytes);
        CHECK(simcuda_kernel(stream, 5, block, 512, mine));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(simcuda_check(block, 512, mine));
        CHECK(cuMemFree_v2(block));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 16;
    pthread_t threads[64];
    rounds = argc > 2 ? atol(argv[2]) : 200;
    context = start(0);
    for (int i = 0; i < count; i++) CHECK(pthread_create(threads + i, NULL, work, (void *)(uintptr_t)(i + 1)));
    for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL));
    say("done", 1);
    return 0;
}
