// Devices.
#include "driver.h"
#include <string.h>

// What PyTorch asks of a device beside what the simulated driver knows: an H200's.
static bool known_attribute(enum cudaDeviceAttr attribute, int *value) {
    switch (attribute) {
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = 1024; return true;
    case cudaDevAttrMaxBlockDimZ: *value = 64; return true;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; return true;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = 65535; return true;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 233472; return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return true;
    case cudaDevAttrL2CacheSize: *value = 62914560; return true;
    case cudaDevAttrClockRate: *value = 1980000; return true;
    default: return false;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (known_attribute(attribute, value)) return cudaSuccess;
    return WITH_CONTEXT(DRIVER(cuDeviceGetAttribute)(value, (CUdevice_attribute)attribute, device));
}

static int attribute_of(int device, enum cudaDeviceAttr attribute) {
    int value = 0;
    cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    memset(properties, 0, sizeof *properties);
    cudaError_t code = WITH_CONTEXT(DRIVER(cuDeviceGetName)(properties->name, sizeof properties->name, device));
    if (!code) code = finish(DRIVER(cuDeviceTotalMem)(&properties->totalGlobalMem, device));
    if (!code) code = finish(DRIVER(cuDeviceGetUuid)((CUuuid *)&properties->uuid, device));
    if (code) return code;
    properties->major = attribute_of(device, cudaDevAttrComputeCapabilityMajor);
    properties->minor = attribute_of(device, cudaDevAttrComputeCapabilityMinor);
    properties->multiProcessorCount = attribute_of(device, cudaDevAttrMultiProcessorCount);
    properties->warpSize = attribute_of(device, cudaDevAttrWarpSize);
    properties->pciBusID = attribute_of(device, cudaDevAttrPciBusId);
    properties->textureAlignment = (size_t)attribute_of(device, cudaDevAttrTextureAlignment);
    properties->unifiedAddressing = attribute_of(device, cudaDevAttrUnifiedAddressing);
    properties->maxThreadsPerBlock = attribute_of(device, cudaDevAttrMaxThreadsPerBlock);
    properties->maxThreadsPerMultiProcessor = attribute_of(device, cudaDevAttrMaxThreadsPerMultiProcessor);
    properties->sharedMemPerBlock = (size_t)attribute_of(device, cudaDevAttrMaxSharedMemoryPerBlock);
    properties->sharedMemPerBlockOptin = (size_t)attribute_of(device, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    properties->sharedMemPerMultiprocessor = (size_t)attribute_of(device, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    properties->regsPerBlock = attribute_of(device, cudaDevAttrMaxRegistersPerBlock);
    properties->regsPerMultiprocessor = attribute_of(device, cudaDevAttrMaxRegistersPerMultiprocessor);
    properties->l2CacheSize = attribute_of(device, cudaDevAttrL2CacheSize);
    for (int axis = 0; axis < 3; axis++) {
        properties->maxThreadsDim[axis] = attribute_of(device, cudaDevAttrMaxBlockDimX + axis);
        properties->maxGridSize[axis] = attribute_of(device, cudaDevAttrMaxGridDimX + axis);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int len, int device) {
    return WITH_CONTEXT(DRIVER(cuDeviceGetPCIBusId)(text, len, device));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    return WITH_CONTEXT(DRIVER(cuDeviceCanAccessPeer)(can, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    CUcontext context;
    CUresult code = primary_context(peer, &context);
    return code ? finish(code) : WITH_CONTEXT(DRIVER(cuCtxEnablePeerAccess)(context, flags));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return WITH_CONTEXT(DRIVER(cuCtxSynchronize)()); }

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }

cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
