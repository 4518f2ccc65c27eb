// Out of memory: who is told, and what the error says.
#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cenote_device.h"
#include "versions.h"

namespace cenote {

inline std::string in_units(uint64_t bytes) {
    char text[64];
    if (bytes < 1024)
        std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(bytes));
    else if (bytes < 1 << 20)
        std::snprintf(text, sizeof text, "%.2f KiB", double(bytes) / (1 << 10));
    else if (bytes < 1 << 30)
        std::snprintf(text, sizeof text, "%.2f MiB", double(bytes) / (1 << 20));
    else
        std::snprintf(text, sizeof text, "%.2f GiB", double(bytes) / (1 << 30));
    return text;
}

class OutOfMemory {
   public:
    void attach(native::OutOfMemoryObserver observer) {
        std::lock_guard<std::mutex> lock(mutex_);
        observers_.push_back(std::move(observer));
    }

    void tell(DeviceIndex device, size_t size, const struct cenote_usage &usage) {
        std::vector<native::OutOfMemoryObserver> observers;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            observers = observers_;
        }
        for (const auto &observer : observers) observer(device, size, usage.device_total_bytes, usage.device_free_bytes);
    }

    // PyTorch's own words as far as they hold, since programs look for them; then where the memory is.
    static std::string message(DeviceIndex device, size_t size, uint64_t in_pools, const struct cenote_usage &usage) {
        const struct cenote_stats stats = stats_of(device);
        std::string text = "CUDA out of memory. Tried to allocate " + in_units(size) + ". GPU " + std::to_string(int(device)) +
                           " has a total capacity of " + in_units(usage.device_total_bytes) + " of which " +
                           in_units(usage.device_free_bytes) + " is free. ";
        if (stats.limit_bytes < usage.device_total_bytes) text += in_units(stats.limit_bytes) + " allowed; ";
        const uint64_t allocated = stats.allocated_bytes.current, reserved = stats.reserved_bytes.current;
        text += "Of the allocated memory " + in_units(allocated) + " is allocated by PyTorch, ";
        if (in_pools) text += "with " + in_units(in_pools) + " allocated in private pools (e.g., CUDA Graphs), ";
        text += "and " + in_units(reserved > allocated ? reserved - allocated : 0) + " is reserved by PyTorch but unallocated. ";
        text += "cenote moves free memory to where it is asked for, so what is unallocated lies in pages that are partly used (" +
                in_units(usage.inactive_split_bytes) + "), in private pools, or is in use by another stream (" +
                in_units(usage.pending_bytes) + "). Its report names who holds the rest: cenote summary, cenote leaks.";
        return text;
    }

   private:
    std::mutex mutex_;
    std::vector<native::OutOfMemoryObserver> observers_;
};

}  // namespace cenote
