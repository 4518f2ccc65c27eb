// Three sites hold most of the card; then a request does not fit.
#include "cu.h"

__attribute__((noinline)) static CUdeviceptr model(void) { CUdeviceptr block = take(256 * MiB); return block + 0; }
__attribute__((noinline)) static CUdeviceptr cache(void) { CUdeviceptr block = take(128 * MiB); return block + 0; }

int main(void) {
    CUdeviceptr block = 42;
    start(0);
    for (volatile int i = 0; i < 2; i++) model();
    cache();
    CUdeviceptr freed = take(64 * MiB);
    CHECK(cuMemFree_v2(freed));
    CHECK(cuCtxSynchronize());
    say("code", (unsigned long long)cuMemAlloc_v2(&block, 768 * MiB));
    say("output", block);
    // The failed request has left nothing behind.
    CHECK(cuMemFree_v2(take(128 * MiB)));
    return 0;
}
