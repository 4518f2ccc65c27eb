// A small CUDA job with a fault, for scripts/demo: twelve steps, each with scratch memory that it frees and one block that it
// forgets. It talks to the driver directly, so it needs no toolkit and runs on a card as on the simulated driver.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef uint64_t Pointer;

static void *driver;

static inline __attribute__((always_inline)) int call(const char *name, uint64_t a, uint64_t b, uint64_t c) {
    int (*function)(uint64_t, uint64_t, uint64_t) = (int (*)(uint64_t, uint64_t, uint64_t))dlsym(driver, name);
    if (!function) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    int code = function(a, b, c);
    if (code) {
        fprintf(stderr, "%s answers %d\n", name, code);
        exit(1);
    }
    return code;
}

static inline __attribute__((always_inline)) Pointer allocate(size_t bytes) {
    Pointer pointer = 0;
    call("cuMemAlloc_v2", (uint64_t)&pointer, bytes, 0);
    call("cuMemsetD8_v2", pointer, 0, bytes);
    return pointer;
}

__attribute__((noinline)) static Pointer load_model(void) {
    Pointer weights = allocate(256 << 20);
    return weights;
}

// The fault: the history is kept for a plot that nobody draws.
__attribute__((noinline)) static Pointer remember_activations(void) {
    Pointer history = allocate(24 << 20);
    return history;
}

__attribute__((noinline)) static void train_step(void) {
    Pointer scratch = allocate(96 << 20), small = allocate(10000);
    call("cuMemFree_v2", scratch, 0, 0);
    call("cuMemFree_v2", small, 0, 0);
    remember_activations();
}

int main(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *context = NULL;
    call("cuInit", 0, 0, 0);
    call("cuDevicePrimaryCtxRetain", (uint64_t)&context, 0, 0);
    call("cuCtxSetCurrent", (uint64_t)context, 0, 0);
    load_model();
    for (int step = 0; step < 12; step++) {
        train_step();
        call("cuCtxSynchronize", 0, 0, 0);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    puts("job: 12 steps done");
    return 0;
}
