// Does a block reach another stream while the work of its former owner still runs? ROUNDS BYTES
#include "cu.h"

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 8;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 4 * MiB;
    start(0);
    CUstream slow = new_stream(), fast = new_stream();
    uint64_t wrong = 0, same = 0;
    for (int round = 0; round < rounds; round++) {
        CUdeviceptr first = take(bytes);
        // 20 ms of work that writes 0xaa when it ends.
        CHECK(simcuda_kernel(slow, 20000, first, bytes, 0xaa));
        CHECK(cuMemFree_v2(first));
        CUdeviceptr second = take(bytes);
        same += second == first;
        CHECK(simcuda_kernel(fast, 10, second, bytes, 0x55));
        CHECK(cuCtxSynchronize());
        wrong += !simcuda_check(second, bytes, 0x55);
        CHECK(cuMemFree_v2(second));
    }
    say("wrong", wrong);
    say("same", same);
    say("driver_allocations", simcuda_calls("cuMemAlloc_v2"));
    return 0;
}
