// Allocates BYTES with a cache of CACHED bytes in blocks of 64 MiB, and says what the driver was asked for.
#include "cu.h"

int main(int argc, char **argv) {
    CUdeviceptr blocks[64], block = 0;
    size_t cached = strtoull(argv[1], NULL, 0) / (64 * MiB), bytes = strtoull(argv[2], NULL, 0);
    (void)argc;
    start(0);
    for (size_t i = 0; i < cached; i++) blocks[i] = take(64 * MiB);
    for (size_t i = 0; i < cached; i++) CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuCtxSynchronize());
    say("freed_before", simcuda_calls("cuMemFree_v2"));
    say("code", (unsigned long long)cuMemAlloc_v2(&block, bytes));
    say("pointer", block);
    say("freed_after", simcuda_calls("cuMemFree_v2"));
    return 0;
}
