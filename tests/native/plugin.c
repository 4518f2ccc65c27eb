// A library that is linked with the driver and uses it, as a Python extension does.
// build: -shared -fPIC
#include "driver.h"

int plugin(int leave);
int plugin(int leave) {
    start(0);
    CUdeviceptr block = take(3 * MiB);
    printf("plugin %s\n", module_of((void *)cuMemAlloc_v2));
    if (!leave) CHECK(cuMemFree_v2(block));
    return 0;
}
CUdeviceptr plugin_take(size_t bytes);
CUdeviceptr plugin_take(size_t bytes) { return take(bytes); }
