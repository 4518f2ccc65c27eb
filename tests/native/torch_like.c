// A program that loads a library named as PyTorch's, before or after the driver is initialised, and allocates.
// FOLDER "first"|"late"
// build: nolink
#include "driver.h"

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    char path[4096];
    snprintf(path, sizeof path, "%s/lib/libc10_cuda.so", argv[1]);
    const int late = strcmp(argv[2], "late") == 0;
    void *driver = open_driver();
    if (!late) REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    REQUIRE(((InitFn)dlsym(driver, "cuInit"))(0) == 0);
    if (late) REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    CUcontext context;
    REQUIRE(((RetainFn)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0) == 0);
    REQUIRE(((SetFn)dlsym(driver, "cuCtxSetCurrent"))(context) == 0);
    CUdeviceptr block;
    REQUIRE(((AllocFn)dlsym(driver, "cuMemAlloc_v2"))(&block, 1 << 20) == 0);
    REQUIRE(((FreeFn)dlsym(driver, "cuMemFree_v2"))(block) == 0);
    puts("done");
    return 0;
}
