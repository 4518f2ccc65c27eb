// A driver that looks its own functions up, hooked ones too, by handle and by default: it must find itself.
// build: -shared -fPIC nolink -Wl,-soname,libcuda.so.1
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

static int alloc(void) { return 17; }
static int lookup(void) { return 18; }
int cuMemAlloc_v2(void) __attribute__((alias("alloc")));
int cuGetProcAddress(void) __attribute__((alias("lookup")));

// How many lookups were answered with something else.
int self_check(void *handle);
int self_check(void *handle) {
    return (dlsym(handle, "cuMemAlloc_v2") != (void *)alloc) + (dlsym(handle, "cuGetProcAddress") != (void *)lookup);
}
