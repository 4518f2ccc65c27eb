// C15: finds the driver as a statically linked runtime does and makes one allocation of 1 MiB. v2|v1|names
// build: nolink
#include "driver.h"

static void *driver;
static const char *how;
static Lookup1Fn lookup1;
static Lookup2Fn lookup2;

static void *find(const char *name, const char *suffixed, int version) {
    void *function = NULL;
    int status = -1;
    if (!strcmp(how, "names")) return dlsym(driver, suffixed);
    if (!strcmp(how, "v1")) CHECK(lookup1(name, &function, version, 0));
    else CHECK(lookup2(name, &function, version, 0, &status));
    REQUIRE(function && (status == 0 || status == -1));
    return function;
}

int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "v2";
    driver = open_driver();
    lookup1 = (Lookup1Fn)dlsym(driver, "cuGetProcAddress");
    lookup2 = (Lookup2Fn)dlsym(driver, "cuGetProcAddress_v2");
    void *function = (void *)1;
    // Runtimes probe with an empty name, and ask for the lookup itself through the lookup.
    if (!strcmp(how, "v2")) {
        lookup2("", &function, 0, 0, NULL);
        CHECK(lookup2("cuGetProcAddress", &function, 12000, 0, NULL));
        lookup2 = (Lookup2Fn)function;
    } else if (!strcmp(how, "v1")) {
        CHECK(lookup1("cuGetProcAddress", &function, 11030, 0));
        lookup1 = (Lookup1Fn)function;
    }
    CUcontext context;
    CUdeviceptr block;
    CHECK(((InitFn)find("cuInit", "cuInit", 2000))(0));
    CHECK(((RetainFn)find("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000))(&context, 0));
    CHECK(((SetFn)find("cuCtxSetCurrent", "cuCtxSetCurrent", 4000))(context));
    AllocFn alloc = (AllocFn)find("cuMemAlloc", "cuMemAlloc_v2", 3020);
    printf("module %s\n", module_of((void *)alloc));
    CHECK(alloc(&block, 1048576));
    return 0;
}
