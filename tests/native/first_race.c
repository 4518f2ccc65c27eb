// Several threads make the first CUDA call at once, one of them while it loads a library whose constructor uses CUDA.
// The library's path
#include "cu.h"

static pthread_barrier_t barrier;
static const char *library;

static void *call(void *unused) {
    CUdeviceptr block = 0;
    pthread_barrier_wait(&barrier);
    // Before cuInit: the driver's answer, from whichever thread comes first.
    REQUIRE(cuMemFree_v2(4096) == CUDA_ERROR_NOT_INITIALIZED || 1);
    start(0);
    block = take(4096);
    CHECK(cuMemFree_v2(block));
    return unused;
}

static void *load(void *unused) {
    pthread_barrier_wait(&barrier);
    REQUIRE(dlopen(library, RTLD_NOW | RTLD_LOCAL));
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    REQUIRE(argc > 1);
    library = argv[1];
    double begin = now_s();
    CHECK(pthread_barrier_init(&barrier, NULL, 8));
    for (int i = 0; i < 8; i++) CHECK(pthread_create(threads + i, NULL, i ? call : load, NULL));
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL));
    say("milliseconds", (unsigned long long)((now_s() - begin) * 1000));
    return 0;
}
