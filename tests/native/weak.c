// A program with weak references to the driver, on a host without one: what is there must answer, not crash.
// build: nolink
#include "driver.h"

#pragma weak cuMemAlloc_v2
#pragma weak cuMemFree_v2
#pragma weak cuMemGetInfo_v2
#pragma weak cuGetProcAddress_v2

int main(int argc, char **argv) {
    CUdeviceptr block = 42;
    void *function = NULL;
    say("there", cuMemAlloc_v2 != NULL);
    if (cuMemAlloc_v2) {
        say("alloc", (unsigned long long)cuMemAlloc_v2(&block, 4096));
        say("free", (unsigned long long)cuMemFree_v2(0x7f0000000000ull));
        say("info", (unsigned long long)cuMemGetInfo_v2(NULL, NULL));
        say("lookup", (unsigned long long)cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
    }
    // Every other name, with nothing but zeros.
    for (int i = 1; i < argc; i++) {
        CUresult (*found)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
            (CUresult(*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))dlsym(RTLD_DEFAULT, argv[i]);
        if (!found) continue;
        printf("%s %d\n", argv[i], found(0, 0, 0, 0, 0, 0));
        fflush(stdout);
    }
    return 0;
}
