// Does a program that never waits fill the card with blocks whose work is not done? ROUNDS BYTES MICROSECONDS
#include "cu.h"

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 10000;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 64 * MiB;
    uint64_t duration = argc > 3 ? strtoull(argv[3], NULL, 0) : 100;
    start(0);
    CUstream stream = new_stream();
    for (long round = 0; round < rounds; round++) {
        CUdeviceptr block = take(bytes);
        CHECK(simcuda_kernel(stream, duration, block, 4096, (uint8_t)round));
        CHECK(cuMemFree_v2(block));
    }
    CHECK(cuCtxSynchronize());
    say("rounds", (unsigned long long)rounds);
    return 0;
}
