// What differs between releases of PyTorch, 2.6 to 2.15; no other file asks for the version.
//
// CENOTE_TORCH is 100 times the major version and the minor one: 211 for 2.11.
#pragma once

#if CENOTE_TORCH >= 209
#include <c10/core/AllocatorConfig.h>
#endif
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/ApproximateClock.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#if CENOTE_TORCH < 206
#error "cenote's adapter is for PyTorch 2.6 and later"
#endif

namespace cenote {

namespace native = c10::cuda::CUDACachingAllocator;

using c10::CachingDeviceAllocator::DeviceStats;
using c10::DeviceIndex;
using MempoolId = c10::cuda::MempoolId_t;
using native::TraceEntry;

inline size_t native_max_split_size() {
#if CENOTE_TORCH >= 209
    return c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size();
#else
    return native::CUDAAllocatorConfig::max_split_size();
#endif
}

inline void read_native_settings() { native::CUDAAllocatorConfig::instance(); }

inline TraceEntry trace_entry(TraceEntry::Action action, DeviceIndex device, size_t address, size_t size, cudaStream_t stream,
                              MempoolId pool, std::shared_ptr<c10::GatheredContext> context) {
#if CENOTE_TORCH >= 208
    return TraceEntry(action, device, address, size, stream, pool, c10::getApproximateTime(), std::move(context));
#else
    (void)pool;
    return TraceEntry(action, device, address, size, stream, c10::getApproximateTime(), std::move(context));
#endif
}

// PyTorch's class as far as its signatures changed: what they all come down to is left to the adapter.
class Interface : public native::CUDAAllocator {
   public:
    explicit Interface(native::CUDAAllocator *own) : own_(own) {}

    virtual native::SnapshotInfo take_snapshot(MempoolId id, bool with_traces) = 0;
    virtual void record(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when, bool clear,
                        std::vector<TraceEntry::Action> skipped) = 0;
    virtual void empty(MempoolId id) = 0;
    virtual void use_pool(DeviceIndex device, MempoolId id, bool is_foreign) = 0;
    virtual int use_count(DeviceIndex device, MempoolId id) = 0;
    virtual bool is_foreign_pool(DeviceIndex device, MempoolId id) = 0;
    virtual bool lives_are(DeviceIndex device, MempoolId id, const std::unordered_set<void *> &expected) = 0;
    virtual std::shared_ptr<c10::GatheredContext> context_of(const void *block) = 0;

    // PyTorch's own allocator gives back what it keeps.
    void empty_own() { own_->emptyCache(); }

    int getPoolUseCount(DeviceIndex device, MempoolId id) override { return use_count(device, id); }
    bool checkPoolLiveAllocations(DeviceIndex device, MempoolId id, const std::unordered_set<void *> &expected) override {
        return lives_are(device, id, expected);
    }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &values) override {
        own_->recordAnnotation(values);
    }

#if CENOTE_TORCH >= 208
    void emptyCache(MempoolId id = {0, 0}) override {
        empty(id);
        own_->emptyCache(id);
    }
    void pushCompileContext(std::string &text) override { own_->pushCompileContext(text); }
    void popCompileContext() override { own_->popCompileContext(); }
#else
    void emptyCache() override {
        empty({0, 0});
        own_->emptyCache();
    }
    native::SnapshotInfo snapshot() override { return take_snapshot({0, 0}, true); }
    void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId id) override { use_pool(device, id, false); }
    void recordHistory(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when) override {
        record(enabled, recorder, most, when, false, {});
    }
#endif

#if CENOTE_TORCH >= 211
    using Custom = std::shared_ptr<native::CUDAAllocator>;
#elif CENOTE_TORCH >= 208
    using Custom = native::CUDAAllocator *;
#endif
#if CENOTE_TORCH >= 208
    // A pool with an allocator of its own is for PyTorch's own allocator, which knows what to do with it.
    void createOrIncrefPool(DeviceIndex device, MempoolId id, Custom custom = nullptr) override {
        const bool is_foreign = custom != nullptr || is_foreign_pool(device, id);
        use_pool(device, id, is_foreign);
        if (is_foreign) own_->createOrIncrefPool(device, id, std::move(custom));
    }
#endif

#if CENOTE_TORCH >= 211
    native::SnapshotInfo snapshot(MempoolId id = {0, 0}, bool with_traces = true) override {
        return take_snapshot(id, with_traces);
    }
    void recordHistory(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when, bool clear,
                       const std::vector<std::string> &skipped) override {
        std::vector<TraceEntry::Action> actions;
        for (const std::string &name : skipped)
            actions.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
        record(enabled, recorder, most, when, clear, std::move(actions));
    }
    void setUseOnOOM(DeviceIndex device, MempoolId id, bool value) override {
        if (is_foreign_pool(device, id)) own_->setUseOnOOM(device, id, value);
    }
#elif CENOTE_TORCH >= 208
    native::SnapshotInfo snapshot(MempoolId id = {0, 0}) override { return take_snapshot(id, true); }
    void recordHistory(bool enabled, native::CreateContextFn recorder, size_t most, native::RecordContext when,
                       bool clear) override {
        record(enabled, recorder, most, when, clear, {});
    }
    void setUseOnOOM(DeviceIndex device, MempoolId id) override {
        if (is_foreign_pool(device, id)) own_->setUseOnOOM(device, id);
    }
#endif

#if CENOTE_TORCH >= 210
    std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { return {}; }
    // Nothing here is split from segments: there is nothing to switch off.
    void setNoSplit(DeviceIndex device, MempoolId id) override {
        if (is_foreign_pool(device, id)) own_->setNoSplit(device, id);
    }
#endif

#if CENOTE_TORCH >= 212
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *block) override { return context_of(block); }
    void attachOomRejectionObserver(native::OomRejectionObserver observer) override {
        own_->attachOomRejectionObserver(std::move(observer));
    }
#endif

#if CENOTE_TORCH >= 213
    void markCaptureBegin(DeviceIndex device) override { own_->markCaptureBegin(device); }
    void markCaptureEnd(DeviceIndex device) override { own_->markCaptureEnd(device); }
#endif

   protected:
    // PyTorch's own allocator, which was there before.
    native::CUDAAllocator *own_;
};

}  // namespace cenote
