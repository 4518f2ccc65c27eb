// Out of memory as C++ sees it: an exception through the library's frame, after which all goes on. LIBRARY
#include "cu.h"
#include <dlfcn.h>
#include <new>

using Allocate = void *(*)(size_t, int, void *);
using Free = void (*)(void *, size_t, int, void *);

int main(int argc, char **argv) {
    REQUIRE(argc > 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    const auto allocate = reinterpret_cast<Allocate>(dlsym(library, "cenote_torch_alloc_or_throw"));
    const auto release = reinterpret_cast<Free>(dlsym(library, "cenote_torch_free"));
    REQUIRE(allocate && release);
    start(0);
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            allocate(size_t(1) << 50, 0, nullptr);
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    void *block = allocate(4 * MiB, 0, nullptr);
    say("caught", (unsigned long long)caught);
    say("block", block != nullptr);
    say("nothing", allocate(0, 0, nullptr) == nullptr);
    release(block, 4 * MiB, 0, nullptr);
    return 0;
}
