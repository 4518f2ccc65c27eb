// Kernels: each launch is a short piece of work in its stream that touches no memory, so what kernels would have written is undefined.
#include "driver.h"
#include <string.h>

enum { KERNEL_US = 10, MAX_NESTED_LAUNCHES = 64 };

// What `kernel<<<...>>>` says between the call of the stub and the stub's own launch.
typedef struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} Configuration;

static __thread Configuration pending[MAX_NESTED_LAUNCHES];
static __thread int depth;

static cudaError_t launch(cudaStream_t stream) {
    typedef int (*Kernel)(CUstream stream, uint64_t duration_us, CUdeviceptr address, uint64_t size, int value);
    static Kernel kernel;
    CUresult code = attach();
    if (code) return finish(code);
    if (!kernel) kernel = (Kernel)simulator_function("simcuda_kernel");
    return finish(kernel ? (CUresult)kernel(stream, KERNEL_US, 0, 0, -1) : CUDA_ERROR_NOT_SUPPORTED);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) {
    (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared;
    return launch(stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
    (void)kernel, (void)arguments;
    return launch(config->stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    (void)kernel;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    (void)kernel, (void)attribute, (void)value;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared,
                                                                   unsigned flags) {
    (void)kernel, (void)shared, (void)flags;
    *blocks = threads > 0 && threads <= 2048 ? 2048 / threads : 1;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0);
}

// Variables in device code do not exist.
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
    (void)symbol;
    *pointer = NULL;
    return finish((CUresult)cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind kind) {
    (void)symbol, (void)from, (void)size, (void)offset, (void)kind;
    return cudaSuccess;
}

// What nvcc's code calls as a library is loaded, and around each launch.

void **__cudaRegisterFatBinary(void *binary) {
    (void)binary;
    static void *handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *name, int limit, uint3 *thread,
                            uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
    (void)handle, (void)stub, (void)device_stub, (void)name, (void)limit;
    (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
}

void __cudaRegisterVar(void **handle, char *variable, char *device_variable, const char *name, int external, size_t size, int constant,
                       int global) {
    (void)handle, (void)variable, (void)device_variable, (void)name, (void)external, (void)size, (void)constant, (void)global;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    if (depth == MAX_NESTED_LAUNCHES) return 1;
    pending[depth++] = (Configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (!depth) return finish((CUresult)cudaErrorMissingConfiguration);
    Configuration top = pending[--depth];
    *grid = top.grid;
    *block = top.block;
    *shared = top.shared;
    *(void **)stream = top.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
    *kernel = (cudaKernel_t)stub;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}
