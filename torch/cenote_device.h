// What the adapter asks of the library for one device, in PyTorch's types.
#pragma once

#include <c10/core/Allocator.h>
#include <cstdint>

#include "cenote.h"

namespace cenote {

using c10::DeviceIndex;

// A block that the program holds.
struct Size {
    uint64_t bytes = 0;
    uint64_t requested = 0;
};

inline Size size_of(const void *block) {
    Size size;
    cenote_block_size(block, &size.bytes, &size.requested);
    return size;
}

inline struct cenote_stats stats_of(DeviceIndex device) {
    struct cenote_stats stats = {};
    stats.size = sizeof stats;
    cenote_stats(device, &stats);
    return stats;
}

inline struct cenote_usage usage_of(DeviceIndex device) {
    struct cenote_usage usage = {};
    usage.size = sizeof usage;
    cenote_usage(device, &usage);
    return usage;
}

}  // namespace cenote
