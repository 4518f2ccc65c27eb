// Question: can a texture object be bound to every block of 300 bytes? It needs an alignment of 512 bytes.
#include "common.cuh"

#include <cstring>

__global__ void copy(cudaTextureObject_t texture, uint32_t *out, int count) {
    if (int(threadIdx.x) < count) out[threadIdx.x] = tex1Dfetch<uint32_t>(texture, threadIdx.x);
}

int main() {
    const int count = 75;
    uint32_t *out, host[75];
    int bound = 0, wrong = 0, unaligned = 0;
    CHECK(cudaMalloc(&out, sizeof host));
    for (int i = 0; i < 64; i++) {
        uint32_t *block;
        void *odd;
        CHECK(cudaMalloc(&odd, size_t(1 + i * 7)));
        CHECK(cudaMalloc(&block, 300));
        unaligned += reinterpret_cast<uintptr_t>(block) % 512 != 0;
        fill<<<1, 96>>>(block, count, uint32_t(1000 + i));
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeLinear;
        resource.res.linear.devPtr = block;
        resource.res.linear.desc = cudaCreateChannelDesc<uint32_t>();
        resource.res.linear.sizeInBytes = 300;
        cudaTextureDesc description{};
        description.readMode = cudaReadModeElementType;
        cudaTextureObject_t texture;
        CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
        copy<<<1, 96>>>(texture, out, count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
        for (uint32_t value : host) wrong += value != uint32_t(1000 + i);
        CHECK(cudaDestroyTextureObject(texture));
        bound++;
        if (i % 2) CHECK(cudaFree(block));
        CHECK(cudaFree(odd));
    }
    std::printf("{\"bound\": %d, \"wrong\": %d, \"unaligned\": %d}\n", bound, wrong, unaligned);
    return wrong || unaligned;
}
