// Reads lines NAME VERSION FLAGS and says what both forms of the lookup answer: code, status, library, symbol.
// build: nolink
#include "driver.h"

int main(void) {
    char line[512], name[256];
    int version;
    unsigned long long flags;
    void *driver = open_driver();
    Lookup1Fn lookup1 = (Lookup1Fn)dlsym(driver, "cuGetProcAddress");
    Lookup2Fn lookup2 = (Lookup2Fn)dlsym(driver, "cuGetProcAddress_v2");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%255s %d %llu", name, &version, &flags) != 3) continue;
        const char *asked = strcmp(name, "-") ? name : "";
        if (lookup1) {
            void *function = (void *)0x42;
            CUresult code = lookup1(asked, &function, version, flags);
            printf("1 %s %d %llu: %d %s %s\n", name, version, flags, code, function == (void *)0x42 ? "untouched" : module_of(function), symbol_of(function));
        }
        if (lookup2) {
            void *function = (void *)0x42, *again = (void *)0x42;
            int status = 99;
            CUresult code = lookup2(asked, &function, version, flags, &status);
            CUresult code_again = lookup2(asked, &again, version, flags, NULL);
            printf("2 %s %d %llu: %d %d %s %s %d\n", name, version, flags, code, status, function == (void *)0x42 ? "untouched" : module_of(function), symbol_of(function), code == code_again && function == again);
        }
    }
    return 0;
}
