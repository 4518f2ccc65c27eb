// Question: does cudaMemGetInfo say what NVML says, and do freed bytes count as free? And how large is a context? Only
// meaningful while no other process uses the card.
#include "common.cuh"

#include <dlfcn.h>

struct Memory {
    unsigned long long total, free, used;
};
struct MemoryV2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
static int (*query)(void *, Memory *);
static int (*query_v2)(void *, MemoryV2 *);
static void *device;

static bool open_nvml() {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return false;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto by_index = reinterpret_cast<int (*)(unsigned, void **)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    query = reinterpret_cast<int (*)(void *, Memory *)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
    query_v2 = reinterpret_cast<int (*)(void *, MemoryV2 *)>(dlsym(library, "nvmlDeviceGetMemoryInfo_v2"));
    return init && by_index && query && init() == 0 && by_index(0, &device) == 0;
}

static unsigned long long nvml_used(const char *name, bool cuda, bool last = false) {
    Memory v1{};
    MemoryV2 v2{unsigned(sizeof(MemoryV2)) | 2u << 24, 0, 0, 0, 0};
    if (!query || query(device, &v1)) v1 = {};
    // The first version counts what the card keeps for itself as used; the second does not.
    const bool has_v2 = query_v2 && query_v2(device, &v2) == 0;
    if (!has_v2) v2 = {};
    size_t free = 0, total = 0;
    if (cuda) CHECK(cudaMemGetInfo(&free, &total));
    std::printf("\"%s\": {\"cuda_total\": %zu, \"cuda_used\": %zu, \"cuda_free\": %zu, \"nvml_total\": %llu, \"nvml_used\": %llu, "
                "\"nvml_reserved\": %llu, \"nvml_used_v2\": %llu}%s",
                name, total, total - free, free, v1.total, v1.used, v2.reserved, v2.used, last ? "" : ", ");
    return has_v2 ? v2.used : v1.used;
}

int main() {
    std::printf("{\"nvml\": %s, ", open_nvml() ? "true" : "false");
    const auto before = nvml_used("before", false);
    CHECK(cudaFree(nullptr));
    const auto with_context = nvml_used("context", true);
    void *block, *second;
    CHECK(cudaMalloc(&block, GiB));
    nvml_used("live_1g", true);
    CHECK(cudaFree(block));
    nvml_used("freed_1g", true);
    CHECK(cudaMalloc(&block, GiB));
    CHECK(cudaMalloc(&second, 3 * GiB));
    nvml_used("live_4g", true);
    CHECK(cudaFree(block));
    CHECK(cudaFree(second));
    nvml_used("freed_4g", true);
    std::printf("\"context_bytes\": %lld}\n", static_cast<long long>(with_context - before));
}
