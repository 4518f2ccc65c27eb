// The driver is gone while the program still runs: calls answer 4, and nothing hangs.
#include "cu.h"

int main(void) {
    CUdeviceptr fresh = 42;
    start(0);
    CUdeviceptr block = take(4 * MiB), cached = take(8 * MiB);
    CHECK(cuMemFree_v2(cached));
    simcuda_shutdown();
    say("alloc", (unsigned long long)cuMemAlloc_v2(&fresh, 64 * MiB));
    say("free", (unsigned long long)cuMemFree_v2(block));
    pause_ms(700);
    return 0;
}
