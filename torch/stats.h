// The numbers of torch.cuda.memory_stats.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>

#include "cenote_device.h"
#include "versions.h"

namespace cenote {

// Small and large are what the library tells apart: blocks below 64 KiB, and all others. PyTorch's own border is at 1 MiB.
class Stats {
   public:
    DeviceStats of(DeviceIndex device) {
        const struct cenote_stats now = stats_of(device);
        const struct cenote_usage usage = usage_of(device);
        auto &mine = devices_[size_t(device) % devices_.size()];
        std::lock_guard<std::mutex> lock(mine.mutex);
        DeviceStats stats;
        fill(stats.allocation, now.blocks, now.small_blocks, now.large_blocks_peak);
        fill(stats.allocated_bytes, now.allocated_bytes, now.small_allocated_bytes, now.large_allocated_peak);
        fill(stats.requested_bytes, now.requested_bytes, now.small_requested_bytes, now.large_requested_peak);
        // What other streams still use is active and no more allocated.
        stats.active = stats.allocation;
        add(stats.active[0], usage.pending_blocks);
        stats.active_bytes = stats.allocated_bytes;
        add(stats.active_bytes[0], usage.pending_bytes);
        fill(stats.segment, now.pages, mine.small_pages.see(usage.small_pages));
        fill(stats.reserved_bytes, now.reserved_bytes, mine.small_reserved.see(usage.small_reserved_bytes));
        fill(stats.inactive_split, mine.splits.see(usage.inactive_split_blocks),
             mine.small_splits.see(usage.small_inactive_split_blocks));
        fill(stats.inactive_split_bytes, mine.split_bytes.see(usage.inactive_split_bytes),
             mine.small_split_bytes.see(usage.small_inactive_split_bytes));
        stats.num_alloc_retries = int64_t(now.retries);
        stats.num_ooms = int64_t(now.ooms);
        stats.num_device_alloc = int64_t(now.pages.allocated);
        stats.num_device_free = int64_t(now.pages.freed);
        stats.max_split_size = int64_t(native_max_split_size());
        subtract(stats, mine.forgotten);
        return stats;
    }

    void reset_peaks(DeviceIndex device) {
        cenote_reset_peaks(device);
        auto &mine = devices_[size_t(device) % devices_.size()];
        std::lock_guard<std::mutex> lock(mine.mutex);
        for (Seen *seen : {&mine.small_pages, &mine.small_reserved, &mine.splits, &mine.small_splits, &mine.split_bytes,
                           &mine.small_split_bytes})
            seen->peak = seen->last;
    }

    void reset_accumulated(DeviceIndex device) {
        const DeviceStats now = of(device);
        auto &mine = devices_[size_t(device) % devices_.size()];
        std::lock_guard<std::mutex> lock(mine.mutex);
        const auto arrays = arrays_of(mine.forgotten), more = arrays_of(const_cast<DeviceStats &>(now));
        for (size_t at = 0; at < arrays.size(); at++)
            for (size_t type = 0; type < arrays[at]->size(); type++) {
                (*arrays[at])[type].allocated += (*more[at])[type].allocated;
                (*arrays[at])[type].freed += (*more[at])[type].freed;
            }
        mine.forgotten.num_alloc_retries += now.num_alloc_retries;
        mine.forgotten.num_ooms += now.num_ooms;
        mine.forgotten.num_device_alloc += now.num_device_alloc;
        mine.forgotten.num_device_free += now.num_device_free;
    }

   private:
    using Array = decltype(DeviceStats::allocation);
    using One = Array::value_type;
    static constexpr size_t ALL = 0, SMALL = 1, LARGE = 2;

    // A number that the library does not follow: what is known of it is what was seen when it was asked for.
    struct Seen {
        uint64_t last = 0, peak = 0, allocated = 0, freed = 0;
        struct cenote_count see(uint64_t now) {
            (now > last ? allocated : freed) += now > last ? now - last : last - now;
            last = now;
            peak = std::max(peak, now);
            return {now, peak, allocated, freed};
        }
    };
    struct Device {
        std::mutex mutex;
        Seen small_pages, small_reserved, splits, small_splits, split_bytes, small_split_bytes;
        DeviceStats forgotten;
    };

    static One of_count(const struct cenote_count &count) {
        One one;
        one.current = int64_t(count.current);
        one.peak = int64_t(count.peak);
        one.allocated = int64_t(count.allocated);
        one.freed = int64_t(count.freed);
        return one;
    }

    static void add(One &one, uint64_t more) {
        one.current += int64_t(more);
        one.freed -= int64_t(more);
        one.peak = std::max(one.peak, one.current);
    }

    // All, small, and large ones, which are the rest.
    static void fill(Array &array, const struct cenote_count &all, const struct cenote_count &small) {
        const uint64_t large = all.peak > small.peak ? std::max(all.current - std::min(all.current, small.current), all.peak - small.peak) : 0;
        fill(array, all, small, large);
    }

    static void fill(Array &array, const struct cenote_count &all, const struct cenote_count &small, uint64_t large_peak) {
        array[ALL] = of_count(all);
        array[SMALL] = of_count(small);
        // Small numbers that are only looked at now and then may be behind the others.
        const auto rest = [](uint64_t whole, uint64_t part) { return whole - std::min(whole, part); };
        array[LARGE] = of_count({rest(all.current, small.current), large_peak, rest(all.allocated, small.allocated),
                                 rest(all.freed, small.freed)});
    }

    static std::array<Array *, 9> arrays_of(DeviceStats &stats) {
        return {&stats.allocation,     &stats.segment,      &stats.active,
                &stats.inactive_split, &stats.allocated_bytes, &stats.reserved_bytes,
                &stats.active_bytes,   &stats.inactive_split_bytes, &stats.requested_bytes};
    }

    static void subtract(DeviceStats &stats, DeviceStats &forgotten) {
        const auto arrays = arrays_of(stats), less = arrays_of(forgotten);
        for (size_t at = 0; at < arrays.size(); at++)
            for (size_t type = 0; type < arrays[at]->size(); type++) {
                (*arrays[at])[type].allocated -= (*less[at])[type].allocated;
                (*arrays[at])[type].freed -= (*less[at])[type].freed;
            }
        stats.num_alloc_retries -= forgotten.num_alloc_retries;
        stats.num_ooms -= forgotten.num_ooms;
        stats.num_device_alloc -= forgotten.num_device_alloc;
        stats.num_device_free -= forgotten.num_device_free;
    }

    std::array<Device, 128> devices_;
};

}  // namespace cenote
