// Which library answers dlsym for each of the names given, by handle, default and next? With LOCAL set in the environment
// the library is not in the global scope. LIBRARY NAMES...
// build: nolink
#include "driver.h"

int main(int argc, char **argv) {
    REQUIRE(argc > 1);
    void *library = dlopen(argv[1], RTLD_NOW | (getenv("LOCAL") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    for (int i = 2; i < argc; i++) {
        void *handles[] = {library, RTLD_DEFAULT, RTLD_NEXT};
        const char *kinds[] = {"handle", "default", "next"};
        for (int kind = 0; kind < 3; kind++) {
            void *found = dlsym(handles[kind], argv[i]);
            const char *error = dlerror();
            printf("%s %s %s %s\n", argv[i], kinds[kind], found ? module_of(found) : "nowhere", error ? error : "-");
        }
    }
    return 0;
}
