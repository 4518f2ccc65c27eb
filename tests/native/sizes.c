// Do sizes of every kind work, aligned, apart from each other, and with the range that the program asked for?
#include "cu.h"

static const size_t sizes[] = {1,         100,       256,       300,       511,     512,     513,     4095,    4097,
                               6912,      65535,     1048575,   1048576,   1048577, 1048832, 2097151, 2097152, 2097153,
                               2097275,   2267136,   3145728,   16789561,  2097152, 3145728};
enum { COUNT = sizeof sizes / sizeof *sizes };

static CUdeviceptr blocks[COUNT];

static void check(void) {
    for (int i = 0; i < COUNT; i++) {
        if (!blocks[i]) continue;
        REQUIRE(blocks[i] % 512 == 0);
        if (sizes[i] >= 2 * MiB) REQUIRE(blocks[i] % (2 * MiB) == 0);
        for (int j = 0; j < i; j++)
            if (blocks[j]) REQUIRE(blocks[i] + sizes[i] <= blocks[j] || blocks[j] + sizes[j] <= blocks[i]);
    }
}

int main(void) {
    start(0);
    for (int i = 0; i < COUNT; i++) blocks[i] = take(sizes[i]);
    check();
    for (int i = 0; i < COUNT; i += 2) {
        CHECK(cuMemFree_v2(blocks[i]));
        blocks[i] = 0;
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < COUNT; i += 2) blocks[i] = take(sizes[i]);
    check();
    for (int i = 0; i < COUNT; i++) CHECK(simcuda_kernel(0, 1, blocks[i], sizes[i], (uint8_t)(i + 1)));
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < COUNT; i++) REQUIRE(simcuda_check(blocks[i], sizes[i], (uint8_t)(i + 1)));
    // A range that holds the block: the driver's own answer, never one that leaves a part of the block out.
    for (int i = 0; i < COUNT; i++) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        CHECK(cuMemGetAddressRange_v2(&base, &bytes, blocks[i] + sizes[i] / 2));
        REQUIRE(base <= blocks[i] && blocks[i] + sizes[i] <= base + bytes);
    }
    for (int i = 0; i < COUNT; i++) CHECK(cuMemFree_v2(blocks[i]));
    say("done", 1);
    return 0;
}
