// A thread's own data frees device memory when the thread ends, after other destructors have run.
#include "cu.h"

static CUcontext context;
static pthread_key_t key;
static int rounds;

static void at_thread_end(void *block) {
    CHECK(cuMemFree_v2((CUdeviceptr)(uintptr_t)block));
    // Set again: the C library calls once more, after the destructors of other keys.
    if (rounds++ < 2) pthread_setspecific(key, (void *)(uintptr_t)take(MiB));
}

static void *thread(void *unused) {
    CHECK(cuCtxSetCurrent(context));
    pthread_setspecific(key, (void *)(uintptr_t)take(MiB));
    return unused;
}

int main(void) {
    pthread_t id;
    context = start(0);
    CHECK(pthread_key_create(&key, at_thread_end));
    CHECK(pthread_create(&id, NULL, thread, NULL));
    CHECK(pthread_join(id, NULL));
    say("rounds", (unsigned long long)rounds);
    return 0;
}
