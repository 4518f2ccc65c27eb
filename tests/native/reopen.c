// Opens, uses and closes the driver's library several times. [PATH]
// build: nolink
#include "driver.h"

int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        void *driver = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!driver) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        CUcontext context;
        CUdeviceptr block;
        CHECK(((InitFn)dlsym(driver, "cuInit"))(0));
        CHECK(((RetainFn)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0));
        CHECK(((SetFn)dlsym(driver, "cuCtxSetCurrent"))(context));
        AllocFn alloc = (AllocFn)dlsym(driver, "cuMemAlloc_v2");
        printf("module %s\n", module_of((void *)alloc));
        CHECK(alloc(&block, 3 * MiB));
        CHECK(((FreeFn)dlsym(driver, "cuMemFree_v2"))(block));
        CHECK(dlclose(driver));
    }
    return 0;
}
