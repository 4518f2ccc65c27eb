// torch.cuda.memory_snapshot: segments are runs of blocks that lie side by side with memory behind all of them.
#pragma once

#include <algorithm>
#include <vector>

#include "cenote_device.h"
#include "history.h"
#include "pools.h"

namespace cenote {

inline std::vector<cenote_block> blocks_of(DeviceIndex device) {
    std::vector<cenote_block> blocks;
    const auto keep = [](const struct cenote_block *block, void *into) {
        static_cast<std::vector<cenote_block> *>(into)->push_back(*block);
    };
    cenote_blocks(device, keep, &blocks);
    return blocks;
}

inline native::BlockInfo block_info(const cenote_block &block, const History &history) {
    native::BlockInfo info;
    info.size = block.bytes;
    info.requested_size = block.requested_bytes;
    info.allocated = block.state == CENOTE_BLOCK_LIVE;
    info.active = block.state != CENOTE_BLOCK_FREE;
    if (info.allocated) info.context_when_allocated = history.context_of(reinterpret_cast<void *>(block.address));
    return info;
}

inline std::vector<native::SegmentInfo> segments_of(DeviceIndex device, Pools &pools, const History &history) {
    std::vector<native::SegmentInfo> segments;
    uint64_t end = 0;
    for (const cenote_block &block : blocks_of(device)) {
        if (segments.empty() || block.address != end) {
            native::SegmentInfo segment;
            segment.device = device;
            segment.address = block.address;
            segment.stream = reinterpret_cast<decltype(segment.stream)>(block.stream);
            segment.is_large = !block.is_small;
            segment.is_expandable = true;
            segment.owner_private_pool_id = pools.name_of(device, block.pool);
            segments.push_back(std::move(segment));
        }
        native::SegmentInfo &segment = segments.back();
        end = block.address + block.bytes;
        segment.total_size += block.bytes;
        if (block.state != CENOTE_BLOCK_FREE) segment.active_size += block.bytes;
        if (block.state == CENOTE_BLOCK_LIVE) {
            segment.allocated_size += block.bytes;
            segment.requested_size += block.requested_bytes;
        }
        segment.blocks.push_back(block_info(block, history));
    }
    const auto by_address = [](const auto &one, const auto &other) { return one.address < other.address; };
    std::sort(segments.begin(), segments.end(), by_address);
    return segments;
}

// Readers go back from the end and find every block of the events in a segment of its time: memory that has moved away since is
// named as a segment that was there from the first event to the last.
inline std::vector<TraceEntry> with_old_segments(std::vector<TraceEntry> entries, const std::vector<native::SegmentInfo> &segments,
                                                 DeviceIndex device) {
    const auto is_known = [&](size_t address) {
        const auto after = std::upper_bound(segments.begin(), segments.end(), address,
                                            [](size_t at, const auto &segment) { return at < segment.address; });
        return after != segments.begin() && address < std::prev(after)->address + std::prev(after)->total_size;
    };
    std::vector<std::pair<size_t, size_t>> gone;
    for (const TraceEntry &entry : entries)
        if (entry.action_ == TraceEntry::ALLOC || entry.action_ == TraceEntry::FREE_REQUESTED)
            if (!is_known(entry.addr_)) gone.push_back({entry.addr_, entry.addr_ + entry.size_});
    if (gone.empty()) return entries;
    std::sort(gone.begin(), gone.end());
    std::vector<std::pair<size_t, size_t>> merged;
    for (const auto &range : gone) {
        if (!merged.empty() && range.first <= merged.back().second)
            merged.back().second = std::max(merged.back().second, range.second);
        else
            merged.push_back(range);
    }
    std::vector<TraceEntry> first, last;
    for (const auto &[begin, end] : merged) {
        first.push_back(trace_entry(TraceEntry::SEGMENT_ALLOC, device, begin, end - begin, nullptr, {0, 0}, nullptr));
        first.back().time_ = entries.front().time_;
        last.push_back(trace_entry(TraceEntry::SEGMENT_FREE, device, begin, end - begin, nullptr, {0, 0}, nullptr));
        last.back().time_ = entries.back().time_;
    }
    entries.insert(entries.begin(), first.begin(), first.end());
    entries.insert(entries.end(), last.begin(), last.end());
    return entries;
}

}  // namespace cenote
