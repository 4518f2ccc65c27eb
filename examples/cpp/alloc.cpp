// Device memory that frees itself, from cenote's C API. The library is opened at run time, so the program works without it, too.
//
//     c++ -std=c++17 -I include -I $CUDA_HOME/include examples/cpp/alloc.cpp -o alloc -lcuda -ldl
//     LD_LIBRARY_PATH=target/stage ./alloc
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "cenote.h"

class Cenote {
public:
    explicit Cenote(const char *path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        if (!library) throw std::runtime_error(dlerror());
        find(alloc, "cenote_alloc");
        find(free, "cenote_free");
        find(stats, "cenote_stats");
        find(trim, "cenote_trim");
    }

    decltype(&cenote_alloc) alloc;
    decltype(&cenote_free) free;
    decltype(&cenote_stats) stats;
    decltype(&cenote_trim) trim;

private:
    template <typename Function>
    void find(Function &function, const char *name) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function) throw std::runtime_error(name);
    }

    void *library;  // never closed: blocks may outlive this object
};

struct Release {
    const Cenote *cenote;
    void operator()(void *block) const { cenote->free(block); }
};
using Buffer = std::unique_ptr<void, Release>;

static Buffer buffer(const Cenote &cenote, std::size_t bytes, CUstream stream) {
    void *block = nullptr;
    switch (int status = cenote.alloc(bytes, 0, stream, &block)) {
    case CENOTE_OK: return Buffer(block, Release{&cenote});
    case CENOTE_OUT_OF_MEMORY: throw std::bad_alloc();
    default: throw std::runtime_error("cenote_alloc: " + std::to_string(status));
    }
}

int main() {
    CUcontext context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    const Cenote cenote("libcenote.so");
    {
        Buffer weights = buffer(cenote, 100 << 20, nullptr);
        for (int step = 0; step < 1000; step++) buffer(cenote, 40 << 20, nullptr);
        try {
            buffer(cenote, std::size_t(1) << 50, nullptr);
            return 1;
        } catch (const std::bad_alloc &) {
        }
    }
    struct cenote_stats stats = {};
    stats.size = sizeof stats;
    if (cenote.stats(0, &stats) != CENOTE_OK) return 1;
    std::printf("live %llu\n", static_cast<unsigned long long>(stats.allocated_bytes.current));
    std::printf("peak %llu\n", static_cast<unsigned long long>(stats.allocated_bytes.peak));
    std::printf("misses %llu\n", static_cast<unsigned long long>(stats.misses));
    std::printf("given back %llu\n", static_cast<unsigned long long>(cenote.trim()));
    return 0;
}
