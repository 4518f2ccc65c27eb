// What PyTorch imports and nothing here can do. Each says so and gives NOT_SUPPORTED.
#include <stdio.h>

#define REFUSED(name) \
    int name(void) { \
        fprintf(stderr, "cudart: " #name " is not supported on the simulated driver\n"); \
        return 801; \
    }

REFUSED(cudaGraphDebugDotPrint)
REFUSED(cudaGraphNodeGetDependencies)
REFUSED(cudaMemPoolGetAttribute)
REFUSED(cudaMemPoolSetAccess)
REFUSED(cudaMemcpy2DAsync)

// Functions of the driver that the simulated one lacks. PyTorch's library for run-time compilation (libcaffe2_nvrtc.so) does not
// load without them.
REFUSED(cuFuncGetAttribute)
REFUSED(cuFuncSetAttribute)
REFUSED(cuFuncSetCacheConfig)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate_v2)
REFUSED(cuModuleGetFunction)
REFUSED(cuModuleLoad)
REFUSED(cuModuleLoadData)
REFUSED(cuModuleLoadDataEx)
REFUSED(cuModuleUnload)
REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cuTensorMapEncodeTiled)
