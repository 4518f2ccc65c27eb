// What torch.cuda.memory._record_memory_history asks for: who allocated each live block, and the latest events.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cenote_device.h"
#include "versions.h"

namespace cenote {

using Context = std::shared_ptr<c10::GatheredContext>;

class History {
   public:
    // Whether anybody wants to know of allocations and frees. The only thing that the hot path asks.
    bool is_watched() const { return watched_.load(std::memory_order_relaxed); }
    bool is_enabled() const { return enabled_.load(std::memory_order_relaxed); }

    void record(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when, bool clear,
                std::vector<TraceEntry::Action> skipped) {
        std::lock_guard<std::mutex> lock(mutex_);
        enabled_ = enabled;
        recorder_ = enabled ? recorder : nullptr;
        most_ = std::max<size_t>(1, most);
        when_ = enabled ? when : native::RecordContext::NEVER;
        skipped_ = std::move(skipped);
        if (clear || !enabled) {
            entries_.clear();
            if (!enabled && trackers_.empty()) owners_.clear();
        }
        watched_ = enabled || !trackers_.empty();
    }

    void attach(native::AllocatorTraceTracker tracker) {
        std::lock_guard<std::mutex> lock(mutex_);
        trackers_.push_back(std::move(tracker));
        watched_ = true;
    }

    // Outside of all locks: the recorder may take the interpreter's.
    Context context(native::RecordContext at_least) const {
        const native::CreateContextFn recorder = recorder_;
        return recorder && when_.load() >= at_least ? recorder() : nullptr;
    }

    void allocated(void *block, DeviceIndex device, cudaStream_t stream, MempoolId pool) {
        Context where = context(native::RecordContext::STATE);
        const Size size = size_of(block);
        std::lock_guard<std::mutex> lock(mutex_);
        owners_[block] = {device, stream, pool, size.requested, where};
        if (when_.load() < native::RecordContext::ALLOC) where = nullptr;
        add(TraceEntry::ALLOC, device, size_t(block), size.requested, stream, pool, std::move(where));
    }

    // Before the block goes back: afterwards its address may be another's. A block from before anybody watched is not told of.
    void freed(void *block) {
        Context where = context(native::RecordContext::ALL);
        std::lock_guard<std::mutex> lock(mutex_);
        const auto at = owners_.find(block);
        if (at == owners_.end()) return;
        const Owner owner = std::move(at->second);
        owners_.erase(at);
        add(TraceEntry::FREE_REQUESTED, owner.device, size_t(block), owner.size, owner.stream, owner.pool, where);
        add(TraceEntry::FREE_COMPLETED, owner.device, size_t(block), owner.size, owner.stream, owner.pool, std::move(where));
    }

    void out_of_memory(DeviceIndex device, size_t free_bytes, size_t size, cudaStream_t stream) {
        if (!is_watched()) return;
        Context where = context(native::RecordContext::STATE);
        std::lock_guard<std::mutex> lock(mutex_);
        add(TraceEntry::OOM, device, free_bytes, size, stream, {0, 0}, std::move(where));
    }

    Context context_of(const void *block) const {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto at = owners_.find(block);
        return at == owners_.end() ? nullptr : at->second.context;
    }

    // The events of a device, oldest first.
    std::vector<TraceEntry> entries(DeviceIndex device) const {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<TraceEntry> chosen;
        for (const TraceEntry &entry : entries_) {
            if (entry.device_ != device) continue;
            chosen.push_back(entry);
            auto &time = chosen.back().time_;
            time.t_ = to_nanoseconds_(time.approx_t_) / 1000;
        }
        return chosen;
    }

   private:
    // Who allocated a block, and for what.
    struct Owner {
        DeviceIndex device;
        cudaStream_t stream;
        MempoolId pool;
        size_t size;
        Context context;
    };

    void add(TraceEntry::Action action, DeviceIndex device, size_t address, size_t size, cudaStream_t stream, MempoolId pool,
             Context where) {
        TraceEntry entry = trace_entry(action, device, address, size, stream, pool, std::move(where));
        for (const auto &tracker : trackers_) tracker(entry);
        if (!enabled_ || std::find(skipped_.begin(), skipped_.end(), action) != skipped_.end()) return;
        if (entries_.size() >= most_) entries_.pop_front();
        entries_.push_back(std::move(entry));
    }

    mutable std::mutex mutex_;
    std::atomic<bool> watched_{false}, enabled_{false};
    std::atomic<native::CreateContextFn> recorder_{nullptr};
    std::atomic<native::RecordContext> when_{native::RecordContext::NEVER};
    size_t most_ = 1;
    std::vector<TraceEntry::Action> skipped_;
    std::vector<native::AllocatorTraceTracker> trackers_;
    std::deque<TraceEntry> entries_;
    std::unordered_map<const void *, Owner> owners_;
    std::function<c10::time_t(c10::approx_time_t)> to_nanoseconds_ = c10::ApproximateClockToUnixTimeConverter().makeConverter();
};

}  // namespace cenote
