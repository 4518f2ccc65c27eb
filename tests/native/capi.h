// The C API as ctypes finds it: the library that the first argument names is opened for itself, and its names are looked up.
#pragma once
#include "driver.h"

#include "../../include/cenote.h"

#define DOORS(each)                                                                                 \
    each(alloc) each(free) each(record_use) each(trim) each(stats) each(reset_peaks) each(set_limit) each(mark)  \
    each(on_oom) each(version) each(torch_alloc) each(torch_free) each(torch_init) each(torch_reset)             \
    each(torch_memory_fraction) each(torch_base_alloc) each(torch_record_stream)                                 \
    each(torch_begin_allocate_to_pool) each(torch_end_allocate_to_pool) each(torch_release_pool)

static struct {
#define DOOR(name) __typeof__(cenote_##name) *name;
    DOORS(DOOR)
#undef DOOR
} api;

// Functions of other processes and devices, for the programs that ask for them by `open_ipc`.
static struct {
    __typeof__(cenote_ipc_export) *export;
    __typeof__(cenote_ipc_open) *open;
    __typeof__(cenote_ipc_close) *close;
    __typeof__(cenote_allow_peer) *allow_peer;
} ipc;

static inline void open_ipc(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    REQUIRE(*(void **)&ipc.export = dlsym(library, "cenote_ipc_export"));
    REQUIRE(*(void **)&ipc.open = dlsym(library, "cenote_ipc_open"));
    REQUIRE(*(void **)&ipc.close = dlsym(library, "cenote_ipc_close"));
    REQUIRE(*(void **)&ipc.allow_peer = dlsym(library, "cenote_allow_peer"));
}

static inline void open_api(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library);
#define DOOR(name) REQUIRE(*(void **)&api.name = dlsym(library, "cenote_" #name));
    DOORS(DOOR)
#undef DOOR
}

static inline struct cenote_stats stats_now(void) {
    struct cenote_stats stats;
    stats.size = sizeof stats;
    CHECK(api.stats(0, &stats));
    REQUIRE(stats.size == sizeof stats);
    return stats;
}

static inline void *get(size_t bytes, CUstream stream) {
    void *block = NULL;
    CHECK(api.alloc(bytes, 0, stream, &block));
    REQUIRE(block);
    return block;
}

static inline CUdeviceptr at(void *block) { return (CUdeviceptr)(uintptr_t)block; }
