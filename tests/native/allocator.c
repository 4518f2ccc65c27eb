// A memory allocator to preload, in the manner of jemalloc: it looks its next functions up from inside malloc.
// build: -shared -fPIC nolink -fno-builtin -ftls-model=initial-exec
#include "cu.h"
#include <errno.h>

static char arena[256 << 20];
static size_t used;
static __thread int inside;
static int looked_up;

static void look_up(void) {
    if (inside || looked_up) return;
    inside = 1;
    // What heaptrack, jemalloc and MKL do in their first malloc.
    if (!dlsym(RTLD_NEXT, "malloc") || !dlsym(RTLD_NEXT, "pthread_create") || dlsym(RTLD_DEFAULT, "no_such_function")) abort();
    looked_up = 1;
    inside = 0;
}

void *malloc(size_t bytes) {
    look_up();
    size_t whole = (bytes + 31) / 16 * 16;
    size_t at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
    if (at + whole > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(arena + at) = bytes;
    return arena + at + 16;
}

void free(void *pointer) {
    (void)pointer;
    look_up();
}

void *calloc(size_t count, size_t bytes) {
    // The arena is zero and nothing comes back.
    return malloc(count * bytes);
}

void *realloc(void *pointer, size_t bytes) {
    void *fresh = malloc(bytes);
    if (pointer && fresh) {
        size_t old = *(size_t *)((char *)pointer - 16);
        memcpy(fresh, pointer, old < bytes ? old : bytes);
    }
    return fresh;
}

void *memalign(size_t alignment, size_t bytes) {
    char *pointer = malloc(bytes + alignment + 16);
    if (!pointer) return NULL;
    char *aligned = (char *)(((uintptr_t)pointer + alignment - 1) / alignment * alignment);
    if (aligned != pointer) {
        aligned += aligned - pointer < 16 ? alignment : 0;
        *(size_t *)(aligned - 16) = bytes;
    }
    return aligned;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **pointer, size_t alignment, size_t bytes) {
    *pointer = memalign(alignment < 16 ? 16 : alignment, bytes);
    return *pointer ? 0 : ENOMEM;
}
