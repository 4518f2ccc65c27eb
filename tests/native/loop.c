// How often does the driver see an allocation while a program allocates and frees in a loop? ROUNDS BYTES
#include "cu.h"

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 64 * MiB;
    start(0);
    for (long round = 0; round < rounds; round++) {
        CUdeviceptr block = take(bytes);
        CHECK(simcuda_kernel(0, 10, block, bytes < 4096 ? bytes : 4096, (uint8_t)round));
        CHECK(cuCtxSynchronize());
        CHECK(cuMemFree_v2(block));
    }
    say("driver_allocations", simcuda_calls("cuMemAlloc_v2"));
    say("driver_frees", simcuda_calls("cuMemFree_v2"));
    return 0;
}
