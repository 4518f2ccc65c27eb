// The codes of the usual mistakes, and what they leave in the output. The same with and without cenote.
#include "cu.h"

int main(void) {
    CUdeviceptr block = 42;
    CUcontext context;
    say("alloc_before_init", (unsigned long long)cuMemAlloc_v2(&block, 4096));
    say("free_before_init", (unsigned long long)cuMemFree_v2(4096));
    CHECK(cuInit(0));
    block = 42;
    say("alloc_without_context", (unsigned long long)cuMemAlloc_v2(&block, 4096));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    block = 42;
    say("alloc_zero", (unsigned long long)cuMemAlloc_v2(&block, 0));
    say("output", block);
    block = 42;
    say("alloc_impossible", (unsigned long long)cuMemAlloc_v2(&block, 1ull << 50));
    say("output", block);
    block = 42;
    say("alloc_wrapping", (unsigned long long)cuMemAlloc_v2(&block, ~0ull));
    say("output", block);
    // A cached block must not be served to a thread that has no context.
    block = take(4 * MiB);
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(NULL));
    block = 42;
    say("hit_without_context", (unsigned long long)cuMemAlloc_v2(&block, 4 * MiB));
    say("free_without_context", (unsigned long long)cuMemFree_v2(0));
    return 0;
}
