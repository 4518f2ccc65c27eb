// Two functions allocate different sizes, one of them on a second thread; some blocks stay.
#include "cu.h"

__attribute__((noinline)) static CUdeviceptr red(void) { CUdeviceptr block = take(1048576); return block + 0; }
__attribute__((noinline)) static CUdeviceptr blue(void) { CUdeviceptr block = take(3000); return block + 0; }

static CUcontext context;

static void *second(void *unused) {
    CHECK(cuCtxSetCurrent(context));
    for (volatile int i = 0; i < 10; i++) blue();
    return unused;
}

int main(void) {
    pthread_t thread;
    CUdeviceptr blocks[5];
    context = start(0);
    for (volatile int i = 0; i < 5; i++) blocks[i] = red();
    for (int i = 0; i < 3; i++) CHECK(cuMemFree_v2(blocks[i]));
    CHECK(pthread_create(&thread, NULL, second, NULL));
    CHECK(pthread_join(thread, NULL));
    return 0;
}
