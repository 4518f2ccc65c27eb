// Private pools: CUDA graphs, torch.cuda.MemPool, cudagraph trees.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cenote_device.h"
#include "versions.h"

namespace cenote {

using Filter = std::function<bool(cudaStream_t)>;

// A private pool: PyTorch's name of it, and ours.
struct Pool {
    MempoolId id;
    uint64_t number;
    int uses;
    // The segments of a pool with an allocator of its own are PyTorch's business: its own allocator keeps them.
    bool is_foreign;
};

// The private pools of all devices.
class Pools {
   public:
    // Whether some allocation on the device may have to go to a pool: hardly ever.
    bool any_open(DeviceIndex device) const { return of(device).open_count.load(std::memory_order_acquire) > 0; }

    // The pool that a request on a stream goes to; number 0 for none.
    Pool current(DeviceIndex device, cudaStream_t stream) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        for (auto open = mine.open.rbegin(); open != mine.open.rend(); ++open)
            if (open->filter(stream))
                if (const Pool *pool = find(mine, open->id)) return *pool;
        return {};
    }

    // A pool is made, or used once more. Returns whether it is foreign.
    bool use(DeviceIndex device, MempoolId id, bool is_foreign = false) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        if (Pool *pool = find(mine, id)) {
            pool->uses++;
            return pool->is_foreign;
        }
        const uint64_t number = is_foreign ? 0 : cenote_pool_make(device);
        TORCH_CHECK(is_foreign || number, "cenote: there can be no private pool on device ", int(device));
        mine.pools.push_back({id, number, 1, is_foreign});
        return is_foreign;
    }

    void open(DeviceIndex device, MempoolId id, Filter filter) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        mine.open.push_back({id, std::move(filter)});
        mine.open_count.store(mine.open.size(), std::memory_order_release);
    }

    void close(DeviceIndex device, MempoolId id) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        const auto is_it = [&](const Open &open) { return open.id == id; };
        const auto at = std::find_if(mine.open.rbegin(), mine.open.rend(), is_it);
        if (at != mine.open.rend()) mine.open.erase(std::next(at).base());
        mine.open_count.store(mine.open.size(), std::memory_order_release);
    }

    // One use less. The pool as it was; of the last use its memory goes to others once it is free.
    Pool release(DeviceIndex device, MempoolId id) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        Pool *pool = find(mine, id);
        if (!pool) return {};
        const Pool before = *pool;
        if (--pool->uses == 0) {
            if (pool->number) cenote_pool_end(device, pool->number);
            mine.pools.erase(mine.pools.begin() + (pool - mine.pools.data()));
        }
        return before;
    }

    // The pool of a name; uses 0 if there is none.
    Pool named(DeviceIndex device, MempoolId id) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        const Pool *pool = find(mine, id);
        return pool ? *pool : Pool{};
    }

    // PyTorch's name of a pool that the library knows by a number.
    MempoolId name_of(DeviceIndex device, uint64_t number) {
        auto &mine = of(device);
        std::lock_guard<std::mutex> lock(mine.mutex);
        for (const Pool &pool : mine.pools)
            if (number && pool.number == number) return pool.id;
        return {0, 0};
    }

   private:
    struct Open {
        MempoolId id;
        Filter filter;
    };
    struct Device {
        std::mutex mutex;
        std::vector<Pool> pools;
        // Those that allocations go to now, the latest last.
        std::vector<Open> open;
        std::atomic<size_t> open_count{0};
    };

    static Pool *find(Device &device, MempoolId id) {
        const auto is_it = [&](const Pool &pool) { return pool.id == id; };
        const auto at = std::find_if(device.pools.begin(), device.pools.end(), is_it);
        return at == device.pools.end() ? nullptr : &*at;
    }

    Device &of(DeviceIndex device) { return devices_[size_t(device) % devices_.size()]; }
    const Device &of(DeviceIndex device) const { return devices_[size_t(device) % devices_.size()]; }

    std::array<Device, 128> devices_;
};

}  // namespace cenote
