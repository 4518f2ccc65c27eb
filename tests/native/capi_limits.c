// Out of memory, limits, and both ways in at once. LIBRARY full|limit|fraction|both|shared
#include "capi.h"

static void *held[64];
static int count, asked, refused_inside;

// Frees one block each time it is asked, and asks for memory itself: that must not come back here.
static int give_one(int device, size_t size, void *user) {
    void *more;
    REQUIRE(device == 0 && size == 32 * MiB && user == held);
    asked++;
    refused_inside += api.alloc(size, device, NULL, &more) == CENOTE_OUT_OF_MEMORY;
    if (!count) return 0;
    CHECK(api.free(held[--count]));
    return 1;
}

static int fill(void) {
    while (count < 64 && api.alloc(32 * MiB, 0, NULL, &held[count]) == CENOTE_OK) count++;
    say("fit", (unsigned long long)count);
    REQUIRE(!held[count]);
    return count;
}

static void full(void) {
    int most = fill();
    REQUIRE(!api.torch_alloc(32 * MiB, 0, NULL));
    api.on_oom(give_one, held);
    void *saved = get(32 * MiB, NULL);
    say("asked", (unsigned long long)asked);
    say("refused_inside", (unsigned long long)refused_inside);
    say("gave", (unsigned long long)(most - count));
    CHECK(api.free(saved));
    api.on_oom(NULL, NULL);
    while (count) CHECK(api.free(held[--count]));
    say("ooms", stats_now().ooms > 0);
    api.trim();
    say("reserved", stats_now().reserved_bytes.current);
}

static void limit(void) {
    fill();
    say("limit", stats_now().limit_bytes);
    CHECK(api.set_limit(0, 0));
    held[count++] = get(32 * MiB, NULL);
    CHECK(api.set_limit(0, 64 * MiB));
    void *none;
    EXPECT(CENOTE_OUT_OF_MEMORY, api.alloc(32 * MiB, 0, NULL, &none));
}

static void fraction(void) {
    size_t free_bytes, total;
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    api.torch_init(1);
    api.torch_memory_fraction(0.5, 0);
    api.torch_memory_fraction(2.0, 0);
    say("half", stats_now().limit_bytes == total / 2);
    fill();
    size_t size = 0;
    void *base = api.torch_base_alloc(held[0], &size);
    say("base", base <= held[0] && (char *)base + size > (char *)held[0]);
    say("foreign_base", api.torch_base_alloc(&size, &size) == &size);
    while (count) CHECK(api.free(held[--count]));
    api.torch_reset();
    say("reserved", stats_now().reserved_bytes.current);
}

// The doors see 32 MiB of cuMemAlloc, the engine has 64 MiB, and the driver 96.
static void both(void) {
    size_t before, after, total;
    CHECK(cuMemGetInfo_v2(&before, &total));
    CUdeviceptr plain = take(32 * MiB);
    get(64 * MiB, NULL);
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("used", before - after);
    say("reserved", stats_now().reserved_bytes.current);
    (void)plain;
}

// One limit for both: what the doors keep is given back before the engine is refused.
static void shared(void) {
    CUdeviceptr plain = take(64 * MiB), code;
    void *none;
    held[0] = get(32 * MiB, NULL);
    EXPECT(CENOTE_OUT_OF_MEMORY, api.alloc(64 * MiB, 0, NULL, &none));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&code, 64 * MiB));
    CHECK(cuMemFree_v2(plain));
    held[1] = get(64 * MiB, NULL);
    CHECK(api.free(held[0]));
    CHECK(api.free(held[1]));
    api.trim();
    plain = take(128 * MiB);
    say("reserved", stats_now().reserved_bytes.current);
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    start(0);
    open_api(argv[1]);
    if (!strcmp(argv[2], "full")) full();
    if (!strcmp(argv[2], "limit")) limit();
    if (!strcmp(argv[2], "fraction")) fraction();
    if (!strcmp(argv[2], "both")) both();
    if (!strcmp(argv[2], "shared")) shared();
    return 0;
}
