// Lets a driver look itself up. PATH
// build: nolink
#include "driver.h"

int main(int argc, char **argv) {
    void *driver = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    REQUIRE(driver);
    say("wrong", (unsigned long long)((int (*)(void *))dlsym(driver, "self_check"))(driver));
    printf("host %s\n", module_of(dlsym(driver, "cuMemAlloc_v2")));
    return 0;
}
