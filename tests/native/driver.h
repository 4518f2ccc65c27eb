// The driver as a runtime finds it: opened and looked up, nothing linked.
#pragma once
#include "cu.h"

typedef CUresult (*InitFn)(unsigned);
typedef CUresult (*RetainFn)(CUcontext *, CUdevice);
typedef CUresult (*SetFn)(CUcontext);
typedef CUresult (*AllocFn)(CUdeviceptr *, size_t);
typedef CUresult (*FreeFn)(CUdeviceptr);
typedef CUresult (*InfoFn)(size_t *, size_t *);
typedef CUresult (*Lookup1Fn)(const char *, void **, int, uint64_t);
typedef CUresult (*Lookup2Fn)(const char *, void **, int, uint64_t, int *);

// File name of the library that an address lies in.
static inline const char *module_of(void *address) {
    Dl_info info;
    if (!address) return "nowhere";
    if (!dladdr(address, &info) || !info.dli_fname) return "unknown";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static inline const char *symbol_of(void *address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_sname ? info.dli_sname : "?";
}

static inline void *open_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return driver;
}
