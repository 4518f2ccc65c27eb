// Question: what does one call cost, of each kind that a training step makes and the library hooks, through the hook and
// past it? Both in turns in one process, on an idle device: what changes from process to process, as where the driver's
// queues lie, is the same for both. The fastest of many batches counts: what others do on the machine is not in it.
//
// The launch of a null function fails at once, so that little but the hook is in it. A real one is measured too.
#include "common.cuh"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <string>

// Far fewer than the launches that a stream takes before one has to wait.
constexpr int CALLS = 100;

static std::map<std::string, double> fastest;
static int hooked = 0, failed = 0;

// Every process of a comparison measures on the same processor: they differ in speed and in how far the card is.
static void stay_on_first_processor() {
    cpu_set_t allowed, first;
    CPU_ZERO(&first);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    int processor = 0;
    while (!CPU_ISSET(processor, &allowed)) processor++;
    CPU_SET(processor, &first);
    sched_setaffinity(0, sizeof first, &first);
}

// The C library's own dlsym answers with the driver's own functions: the library takes only the plain name of it.
static void *past_hook(const char *name) {
    using Lookup = void *(*)(void *, const char *);
    void *libc = dlopen("libc.so.6", RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *lookup = nullptr;
    for (const char *version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"})
        if (!lookup && libc) lookup = dlvsym(libc, "dlsym", version);
    void *address = lookup && driver ? reinterpret_cast<Lookup>(lookup)(driver, name) : nullptr;
    if (!address) {
        std::fprintf(stderr, "%s: not found past the hook\n", name);
        std::exit(3);
    }
    return address;
}

// A function of the driver as programs get it, and the driver's own of that name.
template <typename Function> struct Both {
    Function ways[2];

    Both(const char *name, const char *exact)
        : ways{entry<Function>(name, 12050), reinterpret_cast<Function>(past_hook(exact))} {
        hooked += ways[0] != ways[1];
    }
};

template <typename Call> static void batch(const std::string &name, Call call) {
    const double begin = now_us();
    for (int i = 0; i < CALLS; i++) call(i);
    const double each = (now_us() - begin) * 1000 / CALLS;
    const auto [at, is_first] = fastest.emplace(name, each);
    if (!is_first) at->second = std::min(at->second, each);
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
    stay_on_first_processor();
    cudaStream_t stream = new_stream();
    using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                void **, void **);
    const Both<Launch> launch("cuLaunchKernel", "cuLaunchKernel");
    const Both<CUresult (*)(CUevent *, unsigned)> create("cuEventCreate", "cuEventCreate");
    const Both<CUresult (*)(CUevent)> destroy("cuEventDestroy", "cuEventDestroy_v2");
    const Both<CUresult (*)(CUstream)> synchronise("cuStreamSynchronize", "cuStreamSynchronize");
    const Both<CUresult (*)(size_t *, size_t *)> mem_info("cuMemGetInfo", "cuMemGetInfo_v2");
    const Both<CUresult (*)(CUfunction *, CUkernel)> lookup("cuKernelGetFunction", "cuKernelGetFunction");

    CUfunction function, found;
    CUkernel kernel;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(nothing)));
    CHECK(cudaGetKernel(&kernel, reinterpret_cast<const void *>(nothing)));
    CUevent events[CALLS];
    size_t free, total;
    int rounds = 0;
    // All kinds take turns, so that a slow moment of the machine is one of each.
    for (const double end = now_us() + seconds * 1e6; now_us() < end; rounds++) {
        for (int way = 0; way < 2; way++) {
            const std::string suffix = way ? "_past_ns" : "_ns";
            const auto start = [&](CUfunction what) {
                return launch.ways[way](what, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
            };
            batch("null_launch" + suffix, [&](int) { failed += start(nullptr) == CUDA_SUCCESS; });
            batch("launch" + suffix, [&](int) { failed += start(function) != CUDA_SUCCESS; });
            CHECK(cudaStreamSynchronize(stream));
            batch("event_create" + suffix,
                  [&](int i) { failed += create.ways[way](&events[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS; });
            batch("event_destroy" + suffix, [&](int i) { failed += destroy.ways[way](events[i]) != CUDA_SUCCESS; });
            batch("synchronise" + suffix, [&](int) { failed += synchronise.ways[way](stream) != CUDA_SUCCESS; });
            batch("mem_info" + suffix, [&](int) { failed += mem_info.ways[way](&free, &total) != CUDA_SUCCESS; });
            batch("lookup" + suffix, [&](int) { failed += lookup.ways[way](&found, kernel) != CUDA_SUCCESS; });
        }
    }
    std::printf("{");
    for (const auto &[name, each] : fastest) std::printf("\"%s\": %.2f, ", name.c_str(), each);
    std::printf("\"hooked\": %d, \"failed\": %d, \"rounds\": %d}\n", hooked, failed, rounds);
    return failed != 0;
}
