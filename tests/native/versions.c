// Are both versions of dlsym that glibc has, old and new, answered by the same door?
// build: nolink
#include "driver.h"

#if defined __x86_64__
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");
#else
__asm__(".symver old_dlsym, dlsym@GLIBC_2.17");
#endif
void *old_dlsym(void *handle, const char *name);

int main(void) {
    void *driver = open_driver();
    printf("new %s\n", module_of(dlsym(driver, "cuMemAlloc_v2")));
    printf("old %s\n", module_of(old_dlsym(driver, "cuMemAlloc_v2")));
    printf("versioned %s\n", module_of(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34")));
    return 0;
}
