// Another tool to preload that exports cuMemAlloc_v2 and cuMemFree_v2 and calls the next ones; counts at exit.
// build: -shared -fPIC nolink
#include "driver.h"

static unsigned long long allocs, frees;

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    AllocFn next = (AllocFn)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    __atomic_fetch_add(&allocs, 1, __ATOMIC_RELAXED);
    return next ? next(pointer, bytes) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    FreeFn next = (FreeFn)dlsym(RTLD_NEXT, "cuMemFree_v2");
    __atomic_fetch_add(&frees, 1, __ATOMIC_RELAXED);
    return next ? next(pointer) : CUDA_ERROR_NOT_INITIALIZED;
}

__attribute__((destructor)) static void tell(void) {
    say("other_allocs", allocs);
    say("other_frees", frees);
}
