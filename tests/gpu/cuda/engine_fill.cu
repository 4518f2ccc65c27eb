// Question: does a block of the engine ever change hands while somebody may still use it, and does its memory stay its own when pages
// move? Threads with a stream each take blocks by the C API, fill them, check them now and at the end, and free them while those
// kernels may still run. Some blocks are written and checked on the stream of another thread, which is said by cenote_record_use; some
// are freed by another thread. Any wrong element is memory that had two owners, or that went elsewhere.
//
// engine_fill LIBRARY SECONDS plain|moves|blind [THREADS]
//   moves  a limit just above what lives, and shares of the threads that grow and shrink in turn: hardly a miss without a move
//   blind  one thread whose uses on other streams are not announced, and late: the check must find wrong elements, or it finds nothing.
//          Blocks are of one size, so that no memory moves: a late use of that would be an illegal address
#include "common.cuh"

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../../../include/cenote.h"

#define NEED(call)                                                                   \
    do {                                                                             \
        const int code_ = (call);                                                    \
        if (code_ != CENOTE_OK) {                                                    \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, code_); \
            std::exit(4);                                                            \
        }                                                                            \
    } while (0)

static decltype(&cenote_alloc) get_block;
static decltype(&cenote_free) free_block;
static decltype(&cenote_record_use) record_use;
static decltype(&cenote_stats) read_stats;
static decltype(&cenote_set_limit) set_limit;
static decltype(&cenote_trim) trim;

template <typename Function> static void find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(4);
    }
}

enum Mode { PLAIN, MOVES, BLIND };

struct Block {
    uint32_t *data;
    size_t count;
    uint32_t value;
};

constexpr size_t SHARE = 96 * MiB;      // what a thread holds on the average, where there is a limit
constexpr double EPOCH_US = 200 * 1000;  // after that those that held more hold less

static Mode mode;
static int threads;
static std::vector<cudaStream_t> streams;
static std::mutex handed_lock;
static std::vector<void *> handed;  // blocks that any thread may free
static std::atomic<uint32_t> next_value{1};
static std::atomic<long> blocks{0}, bytes{0}, handovers{0}, uses{0}, out_of_memory{0};

static void launch_fill(const Block &block, cudaStream_t stream) {
    fill<<<blocks_for(block.count), 256, 0, stream>>>(block.data, block.count, block.value);
    CHECK(cudaGetLastError());
}

static void launch_check(const Block &block, cudaStream_t stream, unsigned long long *wrong) {
    count_wrong<<<blocks_for(block.count), 256, 0, stream>>>(block.data, block.count, block.value, wrong);
    CHECK(cudaGetLastError());
}

static void launch_pause(cudaStream_t stream, uint64_t nanoseconds) {
    spin<<<1, 1, 0, stream>>>(nanoseconds, nullptr);
    CHECK(cudaGetLastError());
}

class Worker {
  public:
    Worker(int index, unsigned long long *wrong) : index_(index), own_(streams[index]), wrong_(wrong), random_(100 + index) {
        CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    }

    void run(double begin_us, double end_us) {
        for (double now; (now = now_us()) < end_us;) {
            const size_t epoch = size_t((now - begin_us) / EPOCH_US);
            take(epoch);
            const size_t most = mode == MOVES ? ((index_ + epoch) % 2 ? SHARE / 4 : SHARE * 7 / 4) : ~size_t(0);
            while (held_ > most || live_.size() > (mode == MOVES ? 96 : 12) || (!live_.empty() && random_() % 3 == 0))
                retire(random_() % live_.size());
            free_handed();
        }
        while (!live_.empty()) retire(live_.size() - 1);
    }

  private:
    // Sizes are spread over their logarithm; those of one epoch begin where those of another end.
    size_t next_size(size_t epoch) {
        if (mode == BLIND) return 4 * MiB;
        double least = 512, most = double(64 * MiB);
        if (mode == MOVES) {
            const int kind = (epoch + size_t(index_) / 2) % 3;
            least = kind == 0 ? 512 : kind == 1 ? 300e3 : 2.5e6;
            most = kind == 0 ? 3e6 : kind == 1 ? 9e6 : double(SHARE / 4);
        }
        const double exponent = double(random_() >> 11) / double(1ull << 53);
        return size_t(least * std::pow(most / least, exponent)) & ~size_t(3);
    }

    void take(size_t epoch) {
        const size_t size = next_size(epoch);
        void *data = nullptr;
        const int code = get_block(size, 0, own_, &data);
        if (code == CENOTE_OUT_OF_MEMORY) {
            out_of_memory++;
            if (!live_.empty()) retire(random_() % live_.size());
            return;
        }
        NEED(code);
        const Block block{static_cast<uint32_t *>(data), size / 4, next_value++ * 2654435761u};
        launch_fill(block, own_);
        live_.push_back(block);
        held_ += size;
        blocks++;
        bytes += long(size);
        if (random_() % 8 == 0) launch_check(live_[random_() % live_.size()], own_, wrong_);
        if (random_() % 8 == 0) use_elsewhere(live_[random_() % live_.size()], true);
    }

    // Work on another thread's stream, behind what was done here. If `back`, the own stream goes on behind it with a new value.
    void use_elsewhere(Block &block, bool back) {
        const cudaStream_t other = streams[random_() % streams.size()];
        if (other == own_) return;
        CHECK(cudaEventRecord(event_, own_));
        CHECK(cudaStreamWaitEvent(other, event_, 0));
        if (mode == BLIND) {
            if (back) return;
            launch_pause(other, 1000000);
        } else {
            NEED(record_use(block.data, other));
            if (random_() % 32 == 0) launch_pause(other, 300000);
        }
        launch_check(block, other, wrong_);
        uses++;
        if (!back) return;
        block.value = next_value++ * 2654435761u;
        launch_fill(block, other);
        CHECK(cudaEventRecord(event_, other));
        CHECK(cudaStreamWaitEvent(own_, event_, 0));
    }

    void retire(size_t at) {
        Block block = live_[at];
        live_[at] = live_.back();
        live_.pop_back();
        held_ -= block.count * 4;
        if (random_() % 4 == 0) use_elsewhere(block, false);
        if (mode != BLIND) launch_check(block, own_, wrong_);
        if (random_() % 8 == 0) {
            std::lock_guard<std::mutex> guard(handed_lock);
            handed.push_back(block.data);
            handovers++;
        } else {
            NEED(free_block(block.data));
        }
    }

    void free_handed() {
        std::vector<void *> taken;
        {
            std::lock_guard<std::mutex> guard(handed_lock);
            taken.swap(handed);
        }
        for (void *block : taken) NEED(free_block(block));
    }

    int index_;
    cudaStream_t own_;
    unsigned long long *wrong_;
    std::mt19937_64 random_;
    cudaEvent_t event_ = nullptr;
    std::vector<Block> live_;
    size_t held_ = 0;
};

using Stats = struct cenote_stats;  // a function has the same name

static Stats stats_now() {
    Stats stats{};
    stats.size = sizeof stats;
    NEED(read_stats(0, &stats));
    return stats;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "engine_fill LIBRARY SECONDS plain|moves|blind [THREADS]\n");
        return 2;
    }
    const double seconds = std::atof(argv[2]);
    mode = !std::strcmp(argv[3], "moves") ? MOVES : !std::strcmp(argv[3], "blind") ? BLIND : PLAIN;
    threads = argc > 4 ? std::atoi(argv[4]) : 16;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    find(library, "cenote_alloc", get_block);
    find(library, "cenote_free", free_block);
    find(library, "cenote_record_use", record_use);
    find(library, "cenote_stats", read_stats);
    find(library, "cenote_set_limit", set_limit);
    find(library, "cenote_trim", trim);

    unsigned long long *wrong, result = 0;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
    // Half the threads hold up to 7/4 of a share and half up to 1/4. Otherwise the limit is for the sake of others on the card.
    const uint64_t limit = mode == MOVES ? uint64_t(threads) * SHARE : 32 * GiB;
    NEED(set_limit(0, limit));
    for (int i = 0; i < threads; i++) streams.push_back(new_stream());
    const double begin = now_us(), end = begin + seconds * 1e6;
    std::vector<std::thread> team;
    for (int i = 0; i < (mode == BLIND ? 1 : threads); i++) team.emplace_back([=] { Worker(i, wrong).run(begin, end); });
    for (auto &thread : team) thread.join();
    for (void *block : handed) NEED(free_block(block));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&result, wrong, sizeof result, cudaMemcpyDeviceToHost));
    const Stats stats = stats_now();
    trim();
    const Stats last = stats_now();
    std::printf("{\"wrong\": %llu, \"blocks\": %ld, \"gib\": %.1f, \"handovers\": %ld, \"uses\": %ld, \"out_of_memory\": %ld, ",
                result, blocks.load(), double(bytes) / GiB, handovers.load(), uses.load(), out_of_memory.load());
    std::printf("\"pages_moved\": %llu, \"moved_gib\": %.1f, \"pages_created\": %llu, \"misses\": %llu, \"retries\": %llu, ",
                (unsigned long long)stats.pages_moved, double(stats.moved_bytes) / GiB,
                (unsigned long long)stats.pages_created, (unsigned long long)stats.misses, (unsigned long long)stats.retries);
    std::printf("\"peak_live_mib\": %.1f, \"peak_held_mib\": %.1f, \"limit_mib\": %.1f, \"live_at_last\": %llu, \"kept\": %llu}\n",
                double(stats.allocated_bytes.peak) / MiB, double(stats.reserved_bytes.peak) / MiB, double(limit) / MiB,
                (unsigned long long)last.allocated_bytes.current, (unsigned long long)last.reserved_bytes.current);
    return mode != BLIND && (result != 0 || last.allocated_bytes.current != 0);
}
