// A CUDA runtime over the driver's public API, for running PyTorch on the simulated driver. NVIDIA's runtime cannot: it needs private
// tables of the driver. This one is preloaded, so that PyTorch's references to libcudart bind to it.
//
// Calls reach the driver as NVIDIA's runtime reaches it: dlopen, dlsym of cuGetProcAddress_v2, and that for every function. A preloaded
// library that hooks dlsym and cuGetProcAddress sees them all.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

// The driver's function of this name, as of CUDA 12.0. Its type is that of cuda.h, which names the newest: where the two differ,
// call `driver_function` and cast. A function that the driver lacks is one that says so and gives NOT_SUPPORTED.
#define DRIVER(name) \
    ({ \
        static void *found; \
        if (!found) found = driver_function(#name); \
        (__typeof__(&name))found; \
    })

void *driver_function(const char *name);

// A function of the simulator that no lookup knows.
void *simulator_function(const char *name);

// Initialises the driver, and makes the primary context of the thread's device current if it is not yet. What either gave.
CUresult attach(void);

// Notes a failure as the thread's last error. The runtime's codes are the driver's.
cudaError_t finish(CUresult code);

// For calls that need a context: `call` only after `attach`.
#define WITH_CONTEXT(call) \
    ({ \
        CUresult attached = attach(); \
        finish(attached ? attached : (call)); \
    })

// The primary context of a device, retained once for the process.
CUresult primary_context(int device, CUcontext *context);
