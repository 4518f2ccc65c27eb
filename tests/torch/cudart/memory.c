// Memory: allocation, copies, fills, and hand-over between processes.
#include "driver.h"
#include <string.h>

// A host pointer that the driver does not know is ordinary memory.
static CUmemorytype kind_of(const void *pointer) {
    CUmemorytype kind = CU_MEMORYTYPE_HOST;
    CUresult code = DRIVER(cuPointerGetAttribute)(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pointer);
    return code ? CU_MEMORYTYPE_HOST : kind;
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    CUdeviceptr address = 0;
    cudaError_t code = WITH_CONTEXT(size ? DRIVER(cuMemAlloc)(&address, size) : CUDA_SUCCESS);
    *pointer = (void *)address;
    return code;
}

cudaError_t cudaFree(void *pointer) {
    return WITH_CONTEXT(pointer ? DRIVER(cuMemFree)((CUdeviceptr)pointer) : CUDA_SUCCESS);
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    CUdeviceptr address = 0;
    cudaError_t code = WITH_CONTEXT(size ? DRIVER(cuMemAllocAsync)(&address, size, stream) : CUDA_SUCCESS);
    *pointer = (void *)address;
    return code;
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    return WITH_CONTEXT(pointer ? DRIVER(cuMemFreeAsync)((CUdeviceptr)pointer, stream) : CUDA_SUCCESS);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return WITH_CONTEXT(DRIVER(cuDeviceGetDefaultMemPool)(pool, device));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return WITH_CONTEXT(DRIVER(cuMemPoolSetAttribute)(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) { return WITH_CONTEXT(DRIVER(cuMemPoolTrimTo)(pool, keep)); }

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) { return WITH_CONTEXT(DRIVER(cuMemGetInfo)(free_bytes, total)); }

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    return WITH_CONTEXT(DRIVER(cuMemHostAlloc)(pointer, size, flags));
}

cudaError_t cudaMallocHost(void **pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

cudaError_t cudaFreeHost(void *pointer) {
    return WITH_CONTEXT(pointer ? DRIVER(cuMemFreeHost)(pointer) : CUDA_SUCCESS);
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags) {
    return WITH_CONTEXT(DRIVER(cuMemHostRegister)(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void *pointer) { return WITH_CONTEXT(DRIVER(cuMemHostUnregister)(pointer)); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    CUresult code = attach();
    if (code) return finish(code);
    memset(out, 0, sizeof *out);
    CUmemorytype kind;
    bool managed = false;
    CUdeviceptr address = (CUdeviceptr)pointer;
    out->device = -2;
    if (DRIVER(cuPointerGetAttribute)(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) {
        out->hostPointer = (void *)pointer;
        return cudaSuccess; // of type unregistered
    }
    DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    DRIVER(cuPointerGetAttribute)(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    out->type = managed ? cudaMemoryTypeManaged : kind == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    out->devicePointer = (void *)pointer;
    if (out->type != cudaMemoryTypeDevice) out->hostPointer = (void *)pointer;
    return cudaSuccess;
}

// The driver tells what is where; the direction that the caller names is not needed.
static CUresult copy(void *to, const void *from, size_t size, bool wait, cudaStream_t stream) {
    if (!size) return CUDA_SUCCESS;
    bool to_host = kind_of(to) == CU_MEMORYTYPE_HOST, from_host = kind_of(from) == CU_MEMORYTYPE_HOST;
    if (to_host && from_host) {
        CUresult code = DRIVER(cuStreamSynchronize)(stream);
        if (!code) memcpy(to, from, size);
        return code;
    }
    CUdeviceptr target = (CUdeviceptr)to, source = (CUdeviceptr)from;
    if (wait && to_host) return DRIVER(cuMemcpyDtoH)(to, source, size);
    if (wait && from_host) return DRIVER(cuMemcpyHtoD)(target, from, size);
    if (wait) return DRIVER(cuMemcpyDtoD)(target, source, size);
    if (to_host) return DRIVER(cuMemcpyDtoHAsync)(to, source, size, stream);
    if (from_host) return DRIVER(cuMemcpyHtoDAsync)(target, from, size, stream);
    return DRIVER(cuMemcpyDtoDAsync)(target, source, size, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    (void)kind;
    return WITH_CONTEXT(copy(to, from, size, true, NULL));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)kind;
    return WITH_CONTEXT(copy(to, from, size, false, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t stream) {
    (void)to_device, (void)from_device;
    return WITH_CONTEXT(copy(to, from, size, false, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t size) {
    return WITH_CONTEXT(size ? DRIVER(cuMemsetD8)((CUdeviceptr)to, (unsigned char)value, size) : CUDA_SUCCESS);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    return WITH_CONTEXT(size ? DRIVER(cuMemsetD8Async)((CUdeviceptr)to, (unsigned char)value, size, stream) : CUDA_SUCCESS);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    return WITH_CONTEXT(DRIVER(cuIpcGetMemHandle)((CUipcMemHandle *)handle, (CUdeviceptr)pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned flags) {
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    CUdeviceptr address = 0;
    cudaError_t code = WITH_CONTEXT(DRIVER(cuIpcOpenMemHandle)(&address, same, flags));
    *pointer = (void *)address;
    return code;
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) { return WITH_CONTEXT(DRIVER(cuIpcCloseMemHandle)((CUdeviceptr)pointer)); }
