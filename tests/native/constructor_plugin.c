// A library whose constructor, under the loader's lock, looks CUDA up by dlsym and uses it.
// build: -shared -fPIC nolink
#include "cu.h"

__attribute__((constructor)) static void use(void) {
    CUdeviceptr block = 0;
    CUcontext context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) = (CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*current)(CUcontext) = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
    CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2");
    CHECK(init(0));
    CHECK(retain(&context, 0));
    CHECK(current(context));
    CHECK(alloc(&block, 4096));
    CHECK(release(block));
}
