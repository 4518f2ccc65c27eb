// A library with names that begin as the driver's do: nobody else may answer for them.
// build: -shared -fPIC nolink -Wno-unused
#define NAME(name) int name(void) { return 17; }
NAME(cudnnCreate)
NAME(cublasCreate_v2)
NAME(cuMemAlloc)
NAME(cuMemAlloc_v3)
NAME(cuMemAlloc_v20)
NAME(cuMemAllocX)
NAME(cuMemAllocAsync_ptszz)
NAME(cuMemFre)
NAME(cuMem)
NAME(cu)
NAME(cuda)
NAME(cuMemFree_v2)
NAME(cuGetProcAddressX)
NAME(dlsymX)
