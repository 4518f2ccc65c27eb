// PyTorch's CUDA allocator over cenote's engine. Compiled on the user's machine against the installed PyTorch: see build.rs in
// src/preload/torch for how, and versions.h for what differs between releases.
//
// The engine keeps the memory, the numbers and the order of streams; here are PyTorch's words for it. What only PyTorch's own
// allocator can do (pools with an allocator of their own, memory outside of any cache) is passed on to it: it stays in place
// behind this one, and a pointer that is not ours is its own.
#include <atomic>
#include <memory>

#include "history.h"
#include "ipc.h"
#include "oom.h"
#include "pools.h"
#include "snapshot.h"
#include "stats.h"

namespace cenote {
namespace {

class Adapter;
Adapter *adapter = nullptr;

void release(void *block);

class Adapter final : public Interface {
   public:
    explicit Adapter(native::CUDAAllocator *own) : Interface(own) {}

    // Memory.
    c10::DataPtr allocate(size_t size) override {
        const DeviceIndex device = c10::cuda::current_device();
        if (!enabled_.load(std::memory_order_relaxed)) return own_->allocate(size);
        const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
        if (is_foreign(device, stream)) return own_->allocate(size);
        void *block = take(size, device, stream);
        return {block, block, &release, c10::Device(c10::DeviceType::CUDA, device)};
    }
    void *raw_alloc(size_t size) override {
        const DeviceIndex device = c10::cuda::current_device();
        return raw_alloc_with_stream(size, c10::cuda::getCurrentCUDAStream(device).stream());
    }
    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
        const DeviceIndex device = c10::cuda::current_device();
        if (!enabled_ || is_foreign(device, stream)) return own_->raw_alloc_with_stream(size, stream);
        return take(size, device, stream);
    }
    void raw_delete(void *block) override { give_back(block); }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *to, const void *from, size_t size) const override { own_->copy_data(to, from, size); }

    void give_back(void *block) {
        if (!block) return;
        if (C10_UNLIKELY(history_.is_watched())) history_.freed(block);
        // What the library does not know is PyTorch's own; anything else must not be thrown out of a deleter.
        if (cenote_free(block) == CENOTE_INVALID_VALUE) own_->raw_delete(block);
    }

    // Life.
    void init(int device_count) override { own_->init(device_count); }
    bool initialized() override { return own_->initialized(); }
    std::string name() override { return "cenote"; }
    void enable(bool value) override {
        enabled_ = value;
        own_->enable(value);
    }
    bool isEnabled() const override { return enabled_; }

    // Numbers.
    DeviceStats getDeviceStats(DeviceIndex device) override { return stats_.of(device); }
    void resetAccumulatedStats(DeviceIndex device) override { stats_.reset_accumulated(device); }
    void resetPeakStats(DeviceIndex device) override { stats_.reset_peaks(device); }
    void cacheInfo(DeviceIndex device, size_t *largest) override {
        // What could be had in one piece: free memory of the engine goes to where it is asked for.
        const struct cenote_stats stats = stats_of(device);
        const struct cenote_usage usage = usage_of(device);
        const uint64_t held = stats.reserved_bytes.current, free_here = held - std::min(held, stats.allocated_bytes.current);
        const uint64_t left = stats.limit_bytes - std::min(stats.limit_bytes, held);
        *largest = std::max<size_t>(*largest, free_here + std::min(left, usage.device_free_bytes));
    }
    double getMemoryFraction(DeviceIndex device) override {
        const struct cenote_stats stats = stats_of(device);
        const uint64_t total = usage_of(device).device_total_bytes;
        return total && stats.limit_bytes < total ? double(stats.limit_bytes) / double(total) : 1.0;
    }
    void setMemoryFraction(double fraction, DeviceIndex device) override {
        TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
        cenote_torch_memory_fraction(fraction, device);
    }
    void *getBaseAllocation(void *block, size_t *size) override { return cenote_torch_base_alloc(block, size); }

    // Order.
    void recordStream(const c10::DataPtr &data, c10::cuda::CUDAStream stream) override {
        if (!data.get()) return;
        if (data.get_deleter() != &release) return own_->recordStream(data, stream);
        const int code = cenote_record_use(data.get(), stream.stream());
        TORCH_CHECK(code == CENOTE_OK, "cenote: record_stream: the use of a block on that stream can't be followed (", code,
                    "); the per-thread default stream is another one in each thread");
    }

    // Pools.
    void beginAllocateToPool(DeviceIndex device, MempoolId id, Filter filter) override {
        if (pools_.use(device, id)) own_->beginAllocateToPool(device, id, filter);
        pools_.open(device, id, std::move(filter));
    }
    void endAllocateToPool(DeviceIndex device, MempoolId id) override {
        if (pools_.named(device, id).is_foreign) own_->endAllocateToPool(device, id);
        pools_.close(device, id);
    }
    void releasePool(DeviceIndex device, MempoolId id) override {
        if (pools_.release(device, id).is_foreign) own_->releasePool(device, id);
    }
    void use_pool(DeviceIndex device, MempoolId id, bool is_foreign) override { pools_.use(device, id, is_foreign); }
    int use_count(DeviceIndex device, MempoolId id) override { return pools_.named(device, id).uses; }
    bool is_foreign_pool(DeviceIndex device, MempoolId id) override { return pools_.named(device, id).is_foreign; }
    bool lives_are(DeviceIndex device, MempoolId id, const std::unordered_set<void *> &expected) override {
        if (is_foreign_pool(device, id)) return own_->checkPoolLiveAllocations(device, id, expected);
        const std::vector<cenote_block> live = live_in(device, pools_.named(device, id));
        const auto is_expected = [&](const cenote_block &block) { return expected.count(reinterpret_cast<void *>(block.address)) > 0; };
        return live.size() == expected.size() && std::all_of(live.begin(), live.end(), is_expected);
    }
    // The memory of a private pool goes to others by itself when the pool has ended.
    void empty(MempoolId id) override {
        if (id == MempoolId{0, 0}) cenote_trim();
    }

    // History.
    native::SnapshotInfo take_snapshot(MempoolId id, bool with_traces) override {
        native::SnapshotInfo all;
        try {
            all = own_->snapshot();
        } catch (const c10::Error &) {
            // The allocator behind this one keeps no such books.
        }
        const auto is_other = [&](const auto &segment) { return id != MempoolId{0, 0} && segment.owner_private_pool_id != id; };
        all.segments.erase(std::remove_if(all.segments.begin(), all.segments.end(), is_other), all.segments.end());
        all.device_traces.clear();
        for (int device = 0; device < c10::cuda::device_count(); device++) {
            auto segments = segments_of(DeviceIndex(device), pools_, history_);
            auto traces = with_traces ? history_.entries(DeviceIndex(device)) : std::vector<TraceEntry>{};
            all.device_traces.push_back(with_old_segments(std::move(traces), segments, DeviceIndex(device)));
            for (auto &segment : segments)
                if (id == MempoolId{0, 0} || segment.owner_private_pool_id == id) all.segments.push_back(std::move(segment));
        }
        return all;
    }
    bool isHistoryEnabled() override { return history_.is_enabled(); }
    void record(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when, bool clear,
                std::vector<TraceEntry::Action> skipped) override {
        history_.record(enabled, recorder, most, when, clear, std::move(skipped));
    }
    Context context_of(const void *block) override { return history_.context_of(block); }
    void attachOutOfMemoryObserver(native::OutOfMemoryObserver observer) override { oom_.attach(std::move(observer)); }
    void attachAllocatorTraceTracker(native::AllocatorTraceTracker tracker) override { history_.attach(std::move(tracker)); }

    // Other devices and processes.
    void enablePeerAccess(DeviceIndex device, DeviceIndex other) override {
        own_->enablePeerAccess(device, other);
        // The device may use the other one's memory: it is the other one that lets it in.
        const int code = cenote_allow_peer(other, device);
        TORCH_CHECK(code == CENOTE_OK, "cenote: device ", int(device), " can't use the memory of device ", int(other), ": error ", code);
    }
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t stream,
                            bool peer_access) override {
        // Without peer access only this call copies between devices where memory did not come from cudaMalloc.
        if (to_device != from_device && !peer_access) return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
        return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    }
    native::ShareableHandle shareIpcHandle(void *block) override {
        native::ShareableHandle shared = share(block);
        return shared.handle.empty() ? own_->shareIpcHandle(block) : shared;
    }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
        return is_ours(handle) ? open_shared(handle, c10::cuda::current_device()) : own_->getIpcDevPtr(std::move(handle));
    }
    std::shared_ptr<native::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId id) override {
        const Pool pool = pools_.named(device, id);
        if (pool.is_foreign) return own_->getCheckpointState(device, id);
        auto state = std::make_shared<PoolState>();
        state->pool = pool;
        state->live = live_in(device, pool);
        return state;
    }
    native::CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<native::AllocatorState> state) override {
        const auto *saved = dynamic_cast<const PoolState *>(state.get());
        if (!saved) return own_->setCheckpointPoolState(device, std::move(state));
        native::CheckpointDelta delta;
        for (const cenote_block &block : live_in(device, saved->pool)) {
            delta.ptrs_freed.push_back(reinterpret_cast<void *>(block.address));
            give_back(delta.ptrs_freed.back());
        }
        for (const cenote_block &block : saved->live) {
            void *at = reinterpret_cast<void *>(block.address);
            const int code = cenote_pool_alloc_at(at, block.bytes, block.requested_bytes, device, saved->pool.number);
            TORCH_CHECK(code == CENOTE_OK, "cenote: a block of the private pool's earlier state can't be had again; it is in use");
            delta.dataptrs_allocd.emplace_back(at, at, &release, c10::Device(c10::DeviceType::CUDA, device));
        }
        return delta;
    }

   private:
    // A private pool as it was: which blocks lived.
    struct PoolState final : native::AllocatorState {
        Pool pool;
        std::vector<cenote_block> live;
    };

    static std::vector<cenote_block> live_in(DeviceIndex device, const Pool &pool) {
        std::vector<cenote_block> blocks = blocks_of(device);
        const auto is_other = [&](const cenote_block &block) {
            return !pool.number || block.pool != pool.number || block.state != CENOTE_BLOCK_LIVE;
        };
        blocks.erase(std::remove_if(blocks.begin(), blocks.end(), is_other), blocks.end());
        return blocks;
    }

    bool is_foreign(DeviceIndex device, cudaStream_t stream) {
        return C10_UNLIKELY(pools_.any_open(device)) && pools_.current(device, stream).is_foreign;
    }

    void *take(size_t size, DeviceIndex device, cudaStream_t stream) {
        if (size == 0) return nullptr;
        const Pool pool = C10_UNLIKELY(pools_.any_open(device)) ? pools_.current(device, stream) : Pool{};
        void *block = nullptr;
        const int code = cenote_pool_alloc(size, device, stream, pool.number, &block);
        if (C10_UNLIKELY(code != CENOTE_OK)) block = take_at_last(code, size, device, stream, pool);
        if (C10_UNLIKELY(history_.is_watched())) history_.allocated(block, device, stream, pool.id);
        return block;
    }

    // The library found no memory: those who promised to give some back are asked, and then it is an error.
    void *take_at_last(int code, size_t size, DeviceIndex device, cudaStream_t stream, const Pool &pool) {
        void *block = nullptr;
        // What PyTorch's own allocator keeps from before this one was there.
        bool freed = code == CENOTE_OUT_OF_MEMORY && own_reserved(device) > 0;
        if (freed) empty_own();
        check(code, size);
        for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
            freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
        if (freed) code = cenote_pool_alloc(size, device, stream, pool.number, &block);
        if (code == CENOTE_OK) return block;
        check(code, size);
        const struct cenote_usage usage = usage_of(device);
        history_.out_of_memory(device, usage.device_free_bytes, size, stream);
        oom_.tell(device, size, usage);
        uint64_t in_pools = 0;
        for (const cenote_block &each : blocks_of(device))
            if (each.pool && each.state == CENOTE_BLOCK_LIVE) in_pools += each.bytes;
        TORCH_CHECK_WITH(OutOfMemoryError, false, OutOfMemory::message(device, size, in_pools, usage));
    }

    // Only memory that is not there is PyTorch's out of memory: programs try that again.
    static void check(int code, size_t size) {
        TORCH_CHECK(code == CENOTE_OUT_OF_MEMORY, "cenote: an allocation of ", size, " bytes failed with the driver's error ", code);
    }

    uint64_t own_reserved(DeviceIndex device) {
        try {
            return uint64_t(own_->getDeviceStats(device).reserved_bytes[0].current);
        } catch (const c10::Error &) {
            return 0;
        }
    }

    std::atomic<bool> enabled_{true};
    Pools pools_;
    Stats stats_;
    History history_;
    OutOfMemory oom_;
};

void release(void *block) { adapter->give_back(block); }

}  // namespace
}  // namespace cenote

// Puts the adapter in PyTorch's place for its allocator. Called once, before the first tensor; the object lives as long as the
// process. Returns 0; 1 where PyTorch has another allocator than its own already; 2 where its settings are wrong.
extern "C" __attribute__((visibility("default"))) int cenote_adapter_install() {
    using namespace cenote;
    native::CUDAAllocator *own = native::get();
    if (!own || adapter) return 1;
    try {
        // PyTorch reads its own settings now: later it would look for this allocator's name in them.
        read_native_settings();
    } catch (const std::exception &) {
        // It will say itself what is wrong with them.
        return 2;
    }
    adapter = new Adapter(own);
    native::allocator.store(adapter);
    c10::SetAllocator(c10::DeviceType::CUDA, adapter, 1);
    return 0;
}
