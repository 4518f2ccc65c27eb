// Host time of an allocator with PyTorch's pluggable entry points, beyond what the peers' harness measures: single
// hits, many live blocks, RMM's random allocations and DALI's mix. No kernel runs. All random draws of the last two are
// made before the clock starts: they would cost more than a hit. Needs no CUDA to build:
//   g++ -O2 -std=c++17 -shared -fPIC -o pool_bench.so pool_bench.cpp -lpthread
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

using Alloc = void *(*)(size_t, int, void *);
using Free = void (*)(void *, size_t, int, void *);

constexpr size_t MiB = size_t(1) << 20;

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void *take(Alloc alloc, size_t bytes, void *stream) {
    try {
        return alloc(bytes, 0, stream);
    } catch (...) {
        return nullptr;  // RMM throws
    }
}

// The fences keep what is measured between its two readings.
static uint64_t ticks() {
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
#else
    return uint64_t(seconds() * 1e9);
#endif
}

static double ns_per_tick() {
    double begin = seconds();
    uint64_t first = ticks();
    while (seconds() - begin < 0.02) {
    }
    return (seconds() - begin) * 1e9 / double(ticks() - first);
}

// Single times of `count` allocations that find the block just freed, and of its frees, in nanoseconds, without the
// clock's own cost. out: p50, p99 and the longest of the allocations, the same of the frees, the clock's cost.
extern "C" int hit_times(Alloc alloc, Free release, size_t bytes, void *stream, int count, double *out) {
    std::vector<uint64_t> took(count), freed(count), clock(count);
    for (uint64_t &cost : clock) {
        uint64_t begin = ticks();
        cost = ticks() - begin;
    }
    for (int i = -1000; i < count; i++) {
        uint64_t begin = ticks();
        void *block = take(alloc, bytes, stream);
        uint64_t middle = ticks();
        release(block, bytes, 0, stream);
        uint64_t end = ticks();
        if (!block) return 0;
        if (i >= 0) took[i] = middle - begin, freed[i] = end - middle;
    }
    double scale = ns_per_tick();
    std::sort(clock.begin(), clock.end());
    double own = double(clock[count / 2]);
    auto tell = [&](std::vector<uint64_t> &times) {
        std::sort(times.begin(), times.end());
        for (size_t place : {count / 2, count - 1 - count / 100, count - 1})
            *out++ = std::max(0.0, double(times[place]) - own) * scale;
    };
    tell(took);
    tell(freed);
    *out = own * scale;
    return count;
}

// Nanoseconds per operation with `live` blocks of 2^9 .. 2^max_log2 bytes: each step replaces one of them. Neither the
// steps before the clock starts nor those after it go on for more than `limit` seconds.
extern "C" double live_mix(Alloc alloc, Free release, void *stream, int live, int max_log2, int steps, double limit) {
    std::vector<void *> block(live);
    std::vector<size_t> bytes(live);
    uint64_t state = 88172645463325252ull;
    auto random = [&] {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    };
    auto refill = [&](int slot) {
        uint64_t base = uint64_t(1) << (9 + random() % (max_log2 - 9));
        bytes[slot] = base + random() % base;
        block[slot] = take(alloc, bytes[slot], stream);
    };
    for (int slot = 0; slot < live; slot++) refill(slot);
    double spent = 0;
    long operations = 0;
    for (int phase = 0; phase < 2; phase++) {
        double begin = seconds();
        int i = 0;
        for (; i < steps && (i % 256 || seconds() - begin < limit); i++) {
            int slot = random() % live;
            if (block[slot]) release(block[slot], bytes[slot], 0, stream);
            refill(slot);
        }
        spent = seconds() - begin;
        operations = 2L * i;
    }
    for (int slot = 0; slot < live; slot++)
        if (block[slot]) release(block[slot], bytes[slot], 0, stream);
    return spent / double(operations) * 1e9;
}

// What a benchmark will do, drawn in advance.
struct Step {
    size_t bytes;
    uint32_t block;
    bool frees;
};

struct Plan {
    std::vector<Step> steps;
    std::vector<Step> live;

    void allocate(size_t bytes) {
        steps.push_back({bytes, blocks++, false});
        live.push_back(steps.back());
    }
    void free_at(size_t index) {
        Step gone = live[index];
        live[index] = live.back();
        live.pop_back();
        steps.push_back({gone.bytes, gone.block, true});
    }
    uint32_t blocks = 0;
};

struct Tally {
    double spent = 0;
    long operations = 0, refused = 0;
};

// Follows the plan for `limit` seconds at most.
static Tally follow(const Plan &plan, Alloc alloc, Free release, void *stream, std::vector<void *> &block,
                    double limit) {
    Tally tally;
    double begin = seconds();
    size_t i = 0;
    for (; i < plan.steps.size() && (i % 256 || seconds() - begin < limit); i++) {
        const Step &step = plan.steps[i];
        if (!step.frees) {
            block[step.block] = take(alloc, step.bytes, stream);
            tally.refused += !block[step.block];
        } else if (block[step.block]) {
            release(block[step.block], step.bytes, 0, stream);
            block[step.block] = nullptr;
        }
    }
    tally.spent = seconds() - begin;
    tally.operations = long(i);
    return tally;
}

static void give_back(const Plan &plan, Free release, void *stream, const std::vector<void *> &block) {
    for (const Step &step : plan.steps)
        if (!step.frees && block[step.block]) release(block[step.block], step.bytes, 0, stream);
}

// RMM's random_allocations with its generator and seed: 2 x count steps, sizes of 1 B .. max_mib MiB, less than 16,000
// MiB live. out: operations, allocations that were refused. Returns nanoseconds per operation.
extern "C" double random_grid(Alloc alloc, Free release, void *stream, int count, int max_mib, double limit,
                              int64_t *out) {
    std::minstd_rand0 generator;
    std::uniform_int_distribution<size_t> size(1, max_mib * MiB);
    std::uniform_int_distribution<int> chance(0, 99), index(0, count - 1);
    Plan plan;
    size_t held = 0;
    for (int i = 0; i < 2 * count; i++) {
        size_t bytes = size(generator);
        bool allocates = plan.live.empty() || (chance(generator) < 73 && plan.blocks < uint32_t(count) &&
                                               held + bytes < 16000 * MiB);
        if (allocates) {
            held += bytes;
            plan.allocate(bytes);
        } else {
            size_t victim = index(generator) % plan.live.size();
            held -= plan.live[victim].bytes;
            plan.free_at(victim);
        }
    }
    std::vector<void *> block(plan.blocks);
    Tally tally = follow(plan, alloc, release, stream, block, limit);
    give_back(plan, release, stream, block);
    out[0] = tally.operations;
    out[1] = tally.refused;
    return tally.spent / double(tally.operations) * 1e9;
}

// DALI's mix: each step frees a random block or allocates one of 2^U(4,24) bytes, as often one as the other. Returns
// nanoseconds per operation of all threads together, each on the stream of its place. out as above.
extern "C" double dali_mix(Alloc alloc, Free release, void **streams, int threads, int steps, double limit,
                           int64_t *out) {
    std::vector<Plan> plans(threads);
    std::vector<std::vector<void *>> blocks(threads);
    for (int t = 0; t < threads; t++) {
        std::mt19937_64 generator(t + 1);
        std::uniform_real_distribution<double> exponent(4, 24);
        for (int i = 0; i < steps; i++) {
            if (generator() % 2 && !plans[t].live.empty())
                plans[t].free_at(generator() % plans[t].live.size());
            else
                plans[t].allocate(size_t(std::exp2(exponent(generator))));
        }
        blocks[t].resize(plans[t].blocks);
    }
    std::atomic<int> ready{0};
    std::vector<Tally> tallies(threads);
    std::vector<std::thread> team;
    for (int t = 0; t < threads; t++)
        team.emplace_back([&, t] {
            ready++;
            while (ready < threads) {
            }
            tallies[t] = follow(plans[t], alloc, release, streams[t], blocks[t], limit);
        });
    for (std::thread &thread : team) thread.join();
    double slowest = 0;
    out[0] = out[1] = 0;
    for (int t = 0; t < threads; t++) {
        give_back(plans[t], release, streams[t], blocks[t]);
        slowest = std::max(slowest, tallies[t].spent);
        out[0] += tallies[t].operations;
        out[1] += tallies[t].refused;
    }
    return slowest / double(out[0]) * 1e9;
}
