// What the programs share: the driver's functions (no toolkit is needed), checks, and the first steps of most of them.
// Functions carry the names that cuda.h's macros give, so a program that is linked with libcuda.so.1 imports what a compiled
// CUDA program imports.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../simcuda/simcuda.h"

static const size_t KiB = 1024, MiB = 1024 * 1024, GiB = 1024 * 1024 * 1024;

// Ends the program where a call does not answer `wanted`.
#define EXPECT(wanted, call)                                                                        \
    do {                                                                                            \
        int status_ = (call);                                                                       \
        if (status_ != (wanted)) {                                                                  \
            fprintf(stderr, "%s:%d: %s answered %d, not %d\n", __FILE__, __LINE__, #call, status_, (int)(wanted)); \
            _exit(3);                                                                               \
        }                                                                                           \
    } while (0)
#define CHECK(call) EXPECT(CUDA_SUCCESS, call)
#define REQUIRE(condition)                                                                          \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                 \
            _exit(3);                                                                               \
        }                                                                                           \
    } while (0)

// A capture mode by its name.
static inline int capture_mode(const char *name) {
    return !strcmp(name, "thread") ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
           : !strcmp(name, "relaxed") ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
}

// One line that the test reads back.
static inline void say(const char *name, unsigned long long value) {
    printf("%s %llu\n", name, value);
    fflush(stdout);
}

// What most programs begin with: the primary context of a device, made current.
static inline CUcontext start(int ordinal) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, ordinal));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

static inline CUdeviceptr take(size_t bytes) {
    CUdeviceptr pointer = 0;
    CHECK(cuMemAlloc_v2(&pointer, bytes));
    return pointer;
}

static inline CUstream new_stream(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}
