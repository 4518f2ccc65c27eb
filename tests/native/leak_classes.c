// A site that keeps one block a step, one that keeps all from the start, one that keeps nothing. MILLISECONDS for each step
#include "cu.h"

__attribute__((noinline)) static CUdeviceptr weights(void) { CUdeviceptr block = take(4 * MiB); return block + 0; }
__attribute__((noinline)) static CUdeviceptr history(void) { CUdeviceptr block = take(2 * MiB); return block + 0; }
__attribute__((noinline)) static CUdeviceptr scratch(void) { CUdeviceptr block = take(8 * MiB); return block + 0; }

int main(int argc, char **argv) {
    long wait = argc > 1 ? atol(argv[1]) : 20;
    start(0);
    for (volatile int i = 0; i < 4; i++) weights();
    for (int step = 0; step < 40; step++) {
        CUdeviceptr block = scratch();
        history();
        CHECK(cuMemFree_v2(block));
        pause_ms(wait);
    }
    return 0;
}
