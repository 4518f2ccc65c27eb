// A program whose plugin and whose driver are found by the program's own search path, as in a wheel.
// build: nolink -Wl,--disable-new-dtags -Wl,-rpath,$ORIGIN/wheel
#include "driver.h"

int main(void) {
    void *plugin = dlopen("libonlyhere.so", RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    return ((int (*)(int))dlsym(plugin, "plugin"))(1);
}
