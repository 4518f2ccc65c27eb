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
// What the plugin finds by default: its own scope has the driver, also where the program's has not.
const char *plugin_finds(void);
const char *plugin_finds(void) { return module_of(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")); }
CUdeviceptr plugin_take(size_t bytes);
CUdeviceptr plugin_take(size_t bytes) { return take(bytes); }
