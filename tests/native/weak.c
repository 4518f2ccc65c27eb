// A program with weak references to the driver, on a host without one: what is there must answer, not crash. NAMES...
// build: nolink
#include "driver.h"
#include <link.h>

#pragma weak cuMemAlloc_v2
#pragma weak cuMemFree_v2
#pragma weak cuMemGetInfo_v2
#pragma weak cuGetProcAddress_v2

// Address of a name in the dynamic symbol table of the library at `base`.
static void *export_of(const char *base, const char *name) {
    const ElfW(Ehdr) *header = (const void *)base;
    const ElfW(Phdr) *segments = (const void *)(base + header->e_phoff);
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_DYNAMIC) continue;
        for (const ElfW(Dyn) *entry = (const void *)(base + segments[i].p_vaddr); entry->d_tag; entry++) {
            // The loader has relocated these two.
            if (entry->d_tag == DT_SYMTAB) symbols = (const void *)entry->d_un.d_ptr;
            if (entry->d_tag == DT_STRTAB) strings = (const void *)entry->d_un.d_ptr;
        }
    }
    // The string table follows the symbol table.
    for (; (const char *)symbols < strings; symbols++)
        if (symbols->st_shndx != SHN_UNDEF && !strcmp(strings + symbols->st_name, name)) return (void *)(base + symbols->st_value);
    return NULL;
}

typedef CUresult (*AnyFn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

int main(int argc, char **argv) {
    CUdeviceptr block = 42;
    void *function = NULL;
    say("there", cuMemAlloc_v2 != NULL);
    if (!cuMemAlloc_v2) return 0;
    say("alloc", (unsigned long long)cuMemAlloc_v2(&block, 4096));
    say("free", (unsigned long long)cuMemFree_v2(0x7f0000000000ull));
    say("info", (unsigned long long)cuMemGetInfo_v2(NULL, NULL));
    say("lookup", (unsigned long long)cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
    // Every export, with nothing but zeros. dlsym hides them, so they are taken from the symbol table of the preload.
    Dl_info info;
    REQUIRE(dladdr((void *)cuMemAlloc_v2, &info));
    for (int i = 1; i < argc; i++) {
        char name[128];
        snprintf(name, sizeof name, "lookup_%s", argv[i]);
        say(name, dlsym(RTLD_DEFAULT, argv[i]) != NULL);
        AnyFn found = (AnyFn)export_of((char *)info.dli_fbase, argv[i]);
        if (!found) continue;
        say(argv[i], (unsigned long long)found(0, 0, 0, 0, 0, 0));
    }
    return 0;
}
