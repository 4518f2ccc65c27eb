// Is memory accounted to the device of its allocation, whoever frees it? Another device current; a thread without context.
#include "cu.h"

static CUdeviceptr block;

static void *without_context(void *unused) {
    (void)unused;
    CUcontext current = (CUcontext)1;
    CHECK(cuCtxGetCurrent(&current));
    REQUIRE(!current);
    CHECK(cuMemFree_v2(block));
    return NULL;
}

int main(void) {
    pthread_t thread;
    CUcontext other = start(1), first = start(0);
    block = take(32 * MiB);
    CHECK(cuCtxSetCurrent(other));
    CUdeviceptr theirs = take(16 * MiB);
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSetCurrent(first));
    block = take(32 * MiB);
    CHECK(pthread_create(&thread, NULL, without_context, NULL));
    CHECK(pthread_join(thread, NULL));
    (void)theirs;
    return 0;
}
