// Exceptions fly past frames that call the hooks, and destructors on their way call them too.
#include "cu.h"
#include <stdexcept>

struct Block {
    CUdeviceptr pointer;
    explicit Block(size_t bytes) : pointer(take(bytes)) {}
    ~Block() { CHECK(cuMemFree_v2(pointer)); }
};

__attribute__((noinline)) static void deep(int depth) {
    Block block(size_t(depth + 1) * 4096);
    if (depth == 0) throw std::runtime_error("up");
    deep(depth - 1);
}

int main() {
    start(0);
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            Block outer(2 * MiB);
            deep(10);
        } catch (const std::runtime_error &) {
            Block in_handler(4096);
            caught++;
        }
    }
    say("caught", (unsigned long long)caught);
    return 0;
}
