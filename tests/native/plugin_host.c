// Loads a plugin that uses CUDA, itself knowing nothing of CUDA. local|global|deepbind LIBRARY [close]
// build: nolink
#include "driver.h"

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    int flags = RTLD_NOW | (!strcmp(argv[1], "global") ? RTLD_GLOBAL : !strcmp(argv[1], "deepbind") ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL);
    void *library = dlopen(argv[2], flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    REQUIRE(((int (*)(int))dlsym(library, "plugin"))(0) == 0);
    printf("default %s\n", ((const char *(*)(void))dlsym(library, "plugin_finds"))());
    if (!strcmp(argv[1], "deepbind")) {
        // Taken from the driver without a hook, freed through one: it is the driver's, so it goes there.
        CUdeviceptr theirs = ((CUdeviceptr(*)(size_t))dlsym(library, "plugin_take"))(2 * MiB);
        FreeFn release = (FreeFn)dlsym(open_driver(), "cuMemFree_v2");
        printf("host %s\n", module_of((void *)release));
        say("free", (unsigned long long)release(theirs));
    }
    if (argc > 3) CHECK(dlclose(library));
    return 0;
}
