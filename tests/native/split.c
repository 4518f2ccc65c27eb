// Which requests does a cached block of 64 MiB serve? Prints how many allocations the driver saw for each.
#include "cu.h"

int main(int argc, char **argv) {
    start(0);
    for (int i = 1; i < argc; i++) {
        CUdeviceptr block = take(64 * MiB);
        CHECK(cuMemFree_v2(block));
        CHECK(cuCtxSynchronize());
        uint64_t before = simcuda_calls("cuMemAlloc_v2");
        CUdeviceptr other = take(strtoull(argv[i], NULL, 0) * MiB);
        say("driver_allocations", simcuda_calls("cuMemAlloc_v2") - before);
        CHECK(cuMemFree_v2(other));
        CHECK(cuCtxSynchronize());
    }
    return 0;
}
