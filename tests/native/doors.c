// One allocation of 1 MiB through each door, each freed through another.
#include "driver.h"

int main(void) {
    void *driver = open_driver(), *function = NULL;
    AllocFn allocs[5];
    FreeFn frees[5];
    start(0);
    allocs[0] = cuMemAlloc_v2;
    frees[0] = cuMemFree_v2;
    allocs[1] = (AllocFn)dlsym(driver, "cuMemAlloc_v2");
    frees[1] = (FreeFn)dlsym(driver, "cuMemFree_v2");
    allocs[2] = (AllocFn)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    frees[2] = (FreeFn)dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    CHECK(cuGetProcAddress("cuMemAlloc", &function, 3020, 0));
    allocs[3] = (AllocFn)function;
    CHECK(cuGetProcAddress("cuMemFree", &function, 3020, 0));
    frees[3] = (FreeFn)function;
    CHECK(((Lookup2Fn)dlsym(driver, "cuGetProcAddress_v2"))("cuMemAlloc", &function, 12000, 0, NULL));
    allocs[4] = (AllocFn)function;
    CHECK(((Lookup2Fn)dlsym(driver, "cuGetProcAddress_v2"))("cuMemFree", &function, 12000, 0, NULL));
    frees[4] = (FreeFn)function;
    CUdeviceptr blocks[5];
    for (int i = 0; i < 5; i++) {
        printf("alloc %s\nfree %s\n", module_of((void *)allocs[i]), module_of((void *)frees[i]));
        CHECK(allocs[i](&blocks[i], 1048576));
    }
    for (int i = 0; i < 5; i++) CHECK(frees[(i + 2) % 5](blocks[i]));
    return 0;
}
