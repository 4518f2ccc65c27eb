// The way to the driver, contexts, and errors.
#include "driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 64, AS_OF = 12000 };

typedef CUresult (*Lookup)(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static void *library;
static Lookup look_up;
static CUresult initialised;

static pthread_mutex_t contexts = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES];

static __thread int device;
static __thread bool attached;
static __thread cudaError_t last_error;

static CUresult lacking(void) { return CUDA_ERROR_NOT_SUPPORTED; }

static void open_driver(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library) look_up = (Lookup)dlsym(library, "cuGetProcAddress_v2");
    if (!look_up) {
        fprintf(stderr, "cudart: no driver: %s\n", dlerror());
        initialised = CUDA_ERROR_NO_DEVICE;
        return;
    }
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))driver_function("cuInit");
    initialised = init(0);
}

static CUresult initialise(void) {
    pthread_once(&opened, open_driver);
    return initialised;
}

void *driver_function(const char *name) {
    void *function = NULL;
    if (look_up && look_up(name, &function, AS_OF, 0, NULL) == CUDA_SUCCESS && function) return function;
    fprintf(stderr, "cudart: the driver has no %s\n", name);
    return (void *)lacking;
}

void *simulator_function(const char *name) {
    initialise();
    return library ? dlsym(library, name) : NULL;
}

CUresult primary_context(int of, CUcontext *context) {
    CUresult code = initialise();
    if (code) return code;
    if (of < 0 || of >= MAX_DEVICES) return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&contexts);
    if (!primaries[of]) code = DRIVER(cuDevicePrimaryCtxRetain)(&primaries[of], of);
    *context = primaries[of];
    pthread_mutex_unlock(&contexts);
    return code;
}

static CUresult attach_to(int wanted) {
    CUcontext context;
    CUresult code = primary_context(wanted, &context);
    if (!code) code = DRIVER(cuCtxSetCurrent)(context);
    if (code) return code;
    device = wanted;
    attached = true;
    return CUDA_SUCCESS;
}

CUresult attach(void) { return attached ? CUDA_SUCCESS : attach_to(device); }

cudaError_t finish(CUresult code) {
    if (code) last_error = (cudaError_t)code;
    return (cudaError_t)code;
}

cudaError_t cudaSetDevice(int wanted) { return finish(attach_to(wanted)); }

cudaError_t cudaGetDevice(int *out) {
    *out = device;
    return finish(initialise());
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    CUresult code = initialise();
    return finish(code ? code : DRIVER(cuDeviceGetCount)(count));
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 0;
    CUresult code = initialise();
    return finish(code ? code : DRIVER(cuDriverGetVersion)(version));
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

// The answer of a name that is not found is a status, as the runtime promises.
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    CUresult code = initialise();
    if (code) return finish(code);
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    code = look_up(symbol, function, (int)version, flags, &found);
    if (status) *status = (enum cudaDriverEntryPointQueryResult)found;
    return finish(code == CUDA_ERROR_NOT_FOUND && status ? CUDA_SUCCESS : code);
}

cudaError_t cudaGetLastError(void) {
    cudaError_t last = last_error;
    last_error = cudaSuccess;
    return last;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char *cudaGetErrorName(cudaError_t code) {
    const char *text = NULL;
    return initialise() || DRIVER(cuGetErrorName)((CUresult)code, &text) || !text ? "cudaErrorUnknown" : text;
}

const char *cudaGetErrorString(cudaError_t code) {
    const char *text = NULL;
    if (code == cudaErrorMemoryAllocation) return "out of memory";
    return initialise() || DRIVER(cuGetErrorString)((CUresult)code, &text) || !text ? "unknown error" : text;
}
