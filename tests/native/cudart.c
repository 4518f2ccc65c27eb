// Lets the real CUDA runtime find the driver, then says which of the driver's functions it has kept pointers to, and in which
// library those lie. The runtime is the library at PATH, or linked in (-DLINKED). [PATH]
// build: nolink
#include "driver.h"
#include <link.h>

#ifdef LINKED
int cudaGetDeviceCount(int *count);
int cudaMalloc(void **pointer, size_t bytes);
#else
static int (*cudaGetDeviceCount)(int *count);
static int (*cudaMalloc)(void **pointer, size_t bytes);
#endif

// Looks through the writable memory of the object that holds `inside`.
static int look(struct dl_phdr_info *object, size_t size, void *inside) {
    (void)size;
    int holds = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = object->dlpi_phdr + i;
        uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
        holds |= segment->p_type == PT_LOAD && (uintptr_t)inside - begin < segment->p_memsz;
    }
    for (int i = 0; holds && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = object->dlpi_phdr + i;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W)) continue;
        void **word = (void **)((object->dlpi_addr + segment->p_vaddr + 7) & ~(uintptr_t)7);
        for (size_t n = segment->p_memsz / sizeof *word; n > 1; n--, word++) {
            Dl_info info;
            if (!*word || !dladdr(*word, &info) || info.dli_saddr != *word || !info.dli_sname) continue;
            if (!strncmp(info.dli_sname, "cu", 2) && strncmp(info.dli_sname, "cuda", 4))
                printf("%s %s\n", info.dli_sname, module_of(*word));
        }
    }
    return holds;
}

int main(int argc, char **argv) {
    int count = -1;
    void *memory = NULL;
#ifdef LINKED
    (void)argc, (void)argv;
#else
    void *runtime = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!runtime) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    cudaGetDeviceCount = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    cudaMalloc = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
#endif
    cudaGetDeviceCount(&count);
    dl_iterate_phdr(look, (void *)cudaMalloc);
    fflush(stdout);
    // Goes as far as the runtime's own checks of the driver let it.
    cudaMalloc(&memory, 1 << 20);
    return 0;
}
