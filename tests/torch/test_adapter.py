"""The adapter in the place of PyTorch's allocator, on the simulated driver: everything that a program may ask of an allocator."""

import gc
import os
import pickle
import tempfile
import unittest

# The library reads it when CUDA is initialised, which is later.
os.environ["CENOTE_CONF"] = "torch:adapter"

import torch

import simulator

MIB = 1 << 20
CAPACITY = int(os.environ.get("SIMCUDA_CAPACITY", 8 << 30))


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def setUpModule():
    if "libcenote" not in os.environ.get("LD_PRELOAD", ""):
        raise unittest.SkipTest("there is no adapter without the library")


class Case(unittest.TestCase):
    def setUp(self):
        torch.cuda.init()
        self.violations = simulator.violations()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        self.allocated, self.reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    def tearDown(self):
        torch.cuda.synchronize()
        self.assertEqual(simulator.violations(), self.violations)


class Memory(Case):
    def test_it_is_installed(self):
        self.assertEqual(torch.cuda.get_allocator_backend(), "cenote")

    def test_contents(self):
        there = torch.arange(100_000.0).cuda()
        self.assertTrue(torch.equal(there.clone().cpu(), torch.arange(100_000.0)))

    def test_no_elements(self):
        self.assertEqual(torch.empty(0, device="cuda").data_ptr(), 0)

    def test_a_freed_block_is_given_again(self):
        block = empty(30 * MIB)
        address = block.data_ptr()
        del block
        creates = simulator.calls("cuMemCreate")
        self.assertEqual(empty(30 * MIB).data_ptr(), address)
        self.assertEqual(simulator.calls("cuMemCreate"), creates)

    def test_raw_allocation(self):
        address = torch.cuda.caching_allocator_alloc(5 * MIB)
        self.assertEqual(torch.cuda.memory_allocated() - self.allocated, 5 * MIB)
        torch.cuda.caching_allocator_delete(address)
        self.assertEqual(torch.cuda.memory_allocated(), self.allocated)

    def test_without_a_cache(self):
        torch._C._cuda_cudaCachingAllocator_enable(False)
        try:
            block = empty(MIB)
            self.assertEqual(torch.cuda.memory_allocated(), self.allocated)
        finally:
            torch._C._cuda_cudaCachingAllocator_enable(True)
        del block

    def test_emptying_the_cache(self):
        block = empty(300 * MIB)
        del block
        self.assertGreaterEqual(torch.cuda.memory_reserved() - self.reserved, 300 * MIB)
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), self.reserved)

    def test_free_memory(self):
        free, total = torch.cuda.mem_get_info()
        self.assertEqual(total, CAPACITY)
        block = empty(64 * MIB)
        self.assertLessEqual(torch.cuda.mem_get_info()[0], free - 62 * MIB)
        del block


class Numbers(Case):
    def test_current_peak_and_totals(self):
        small, large = empty(1000), empty(30 * MIB)
        del large
        stats = torch.cuda.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.current"] - self.allocated, 1024)
        self.assertEqual(stats["allocated_bytes.all.peak"] - self.allocated, 1024 + 30 * MIB)
        self.assertEqual(stats["requested_bytes.all.allocated"], 1000 + 30 * MIB)
        self.assertEqual(stats["allocation.all.freed"], 1)
        self.assertEqual(stats["allocation.large_pool.allocated"], 1)
        self.assertEqual(stats["allocated_bytes.small_pool.allocated"], 1024)
        self.assertEqual(torch.cuda.max_memory_allocated() - self.allocated, 1024 + 30 * MIB)
        self.assertEqual(stats["reserved_bytes.all.current"], torch.cuda.memory_reserved())
        del small

    def test_every_key_is_there(self):
        stats = torch.cuda.memory_stats()
        names = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes")
        for name in (*names, "inactive_split_bytes", "requested_bytes"):
            for pool in ("all", "small_pool", "large_pool"):
                for metric in ("current", "peak", "allocated", "freed"):
                    self.assertGreaterEqual(stats[f"{name}.{pool}.{metric}"], 0, f"{name}.{pool}.{metric}")
        for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"):
            self.assertGreaterEqual(stats[name], 0)

    def test_resets(self):
        block = empty(50 * MIB)
        del block
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        torch.cuda.reset_accumulated_memory_stats()
        self.assertEqual(torch.cuda.memory_stats()["allocated_bytes.all.allocated"], 0)

    def test_summary(self):
        self.assertIn("Allocated memory", torch.cuda.memory_summary())

    def test_accelerator(self):
        block = empty(MIB)
        self.assertEqual(torch.accelerator.memory_allocated(), torch.cuda.memory_allocated())
        del block


class Limits(Case):
    def tearDown(self):
        torch.cuda.set_per_process_memory_fraction(1.0)
        super().tearDown()

    def test_out_of_memory(self):
        ooms = torch.cuda.memory_stats()["num_ooms"]
        with self.assertRaisesRegex(torch.OutOfMemoryError, r"CUDA out of memory. Tried to allocate 64.00 GiB. GPU 0 has a total"):
            empty(64 << 30)
        self.assertEqual(torch.cuda.memory_stats()["num_ooms"], ooms + 1)
        self.assertEqual(empty(MIB).numel(), MIB)

    def test_fraction(self):
        torch.cuda.set_per_process_memory_fraction(0.25)
        self.assertAlmostEqual(torch.cuda.get_per_process_memory_fraction(), 0.25)
        with self.assertRaises(torch.OutOfMemoryError):
            empty(CAPACITY // 2)
        block = empty(CAPACITY // 5)
        del block

    def test_pages_move_under_a_limit(self):
        """What PyTorch's own allocator can't serve: ten blocks of free memory, none of which is large enough."""
        torch.cuda.set_per_process_memory_fraction(0.25)
        blocks = [empty(CAPACITY // 80) for _ in range(19)]
        del blocks[::2]
        torch.cuda.synchronize()
        large = empty(CAPACITY // 10)
        del large, blocks

    def test_observer(self):
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
        with self.assertRaises(torch.OutOfMemoryError):
            empty(32 << 30)
        device, size, total, free = seen[-1]
        self.assertEqual((device, size, total), (0, 32 << 30, CAPACITY))
        self.assertGreater(free, 0)


class Streams(Case):
    def test_a_stream_has_its_own_blocks(self):
        side, block = torch.cuda.Stream(), empty(30 * MIB)
        address = block.data_ptr()
        del block
        with torch.cuda.stream(side):
            self.assertNotEqual(empty(30 * MIB).data_ptr(), address)

    def test_recorded_stream(self):
        side, block = torch.cuda.Stream(), empty(30 * MIB)
        address = block.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        simulator.work(side, 5000, block, 1)
        block.record_stream(side)
        del block
        self.assertEqual(torch.cuda.memory_stats()["active_bytes.all.current"] - self.allocated, 30 * MIB)
        other = empty(30 * MIB)
        self.assertNotEqual(other.data_ptr(), address)
        simulator.work(torch.cuda.current_stream(), 10, other, 2)
        del other
        side.synchronize()

    def test_memory_goes_to_another_stream_when_it_is_done(self):
        torch.cuda.set_per_process_memory_fraction(0.25)
        side, size = torch.cuda.Stream(), CAPACITY // 5
        for _ in range(4):
            block = empty(size)
            simulator.work(torch.cuda.current_stream(), 1000, block, 1)
            del block
            with torch.cuda.stream(side):
                block = empty(size)
                simulator.work(side, 1000, block, 2)
                del block
        torch.cuda.set_per_process_memory_fraction(1.0)


class Graphs(Case):
    def test_replay_while_others_allocate(self):
        given, result = torch.zeros(1000).cuda(), torch.zeros(1000).cuda()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            between = given.clone()
            result.copy_(between)
        del between
        for number in range(3):
            others = [empty(MIB) for _ in range(20)]
            given.copy_(torch.full((1000,), float(number)))
            graph.replay()
            self.assertTrue(bool((result.cpu() == number).all()))
            del others
        pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory.memory_snapshot()}
        self.assertIn(tuple(graph.pool()), pools)
        graph.reset()

    def test_two_graphs_share_a_pool(self):
        block = torch.zeros(1000).cuda()
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first):
            one = block.clone()
        with torch.cuda.graph(second, pool=first.pool()):
            two = one.clone()
        block.copy_(torch.ones(1000))
        first.replay()
        second.replay()
        self.assertTrue(bool((two.cpu() == 1).all()))

    def test_memory_of_a_graph_comes_back(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            block = empty(300 * MIB)
            del block
        torch.cuda.empty_cache()
        self.assertGreaterEqual(torch.cuda.memory_reserved() - self.reserved, 300 * MIB)
        graph.reset()
        del graph
        torch.cuda.empty_cache()
        self.assertLess(torch.cuda.memory_reserved() - self.reserved, 300 * MIB)

    def test_going_back_to_a_state_of_a_pool(self):
        """What cudagraph trees do between the branches of a compiled function."""
        graph, device = torch.cuda.CUDAGraph(), torch.cuda.current_device()
        with torch.cuda.graph(graph):
            kept = empty(5 * MIB)
        pool = graph.pool()
        state = torch._C._cuda_getCheckpointState(device, pool)
        self.assertTrue(torch._C._cuda_checkPoolLiveAllocations(device, pool, {kept.data_ptr()}))
        address = kept.data_ptr()
        with torch.cuda.graph(torch.cuda.CUDAGraph(), pool=pool):
            more = empty(7 * MIB)
        stale = [kept.untyped_storage()._cdata, more.untyped_storage()._cdata]
        torch._C._cuda_setCheckpointPoolState(device, state, stale, [])
        self.assertTrue(torch._C._cuda_checkPoolLiveAllocations(device, pool, {address}))
        del kept, more


class Pools(Case):
    def test_pool(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = empty(30 * MIB)
        outside = empty(30 * MIB)
        addresses = [(segment["address"], segment["total_size"]) for segment in pool.snapshot()]
        within = [begin <= block.data_ptr() < begin + size for block in (inside, outside) for begin, size in addresses]
        self.assertEqual(within, [True, False])
        self.assertEqual(pool.use_count(), 1)
        del inside, outside, pool
        gc.collect()
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), self.reserved)

    def test_pool_with_an_allocator_of_its_own(self):
        path = os.path.join(os.environ["CENOTE_STAGE"], "libcenote.so")
        own = torch.cuda.memory.CUDAPluggableAllocator(path, "cenote_torch_alloc", "cenote_torch_free")
        pool = torch.cuda.MemPool(own.allocator())
        with torch.cuda.use_mem_pool(pool):
            block = empty(30 * MIB)
        self.assertEqual(torch.arange(10.0).cuda().cpu().tolist(), list(range(10)))
        self.assertEqual(block.numel(), 30 * MIB)
        del block, pool


class Snapshots(Case):
    def test_history(self):
        torch.cuda.memory._record_memory_history(context="all", stacks="python")
        try:
            block = empty(30 * MIB)
            del block
            block = empty(1000)
            snapshot = torch.cuda.memory._snapshot()
            self.assertTrue(torch._C._cuda_isHistoryEnabled())
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        entries = [entry for entry in snapshot["device_traces"][0] if "segment" not in entry["action"]]
        self.assertEqual([entry["action"] for entry in entries], ["alloc", "free_requested", "free_completed", "alloc"])
        self.assertTrue(any("test_history" in frame["name"] for frame in entries[0]["frames"]))
        live = [each for segment in snapshot["segments"] for each in segment["blocks"] if each["state"] == "active_allocated"]
        (mine,) = [each for each in live if each["requested_size"] == 1000 and each["frames"]]
        self.assertTrue(any("test_history" in frame["name"] for frame in mine["frames"]))
        del block

    def test_blocks_fill_their_segments(self):
        blocks = [empty(size) for size in (1000, 5 * MIB, 70 * MIB)]
        del blocks[1]
        for segment in torch.cuda.memory_snapshot():
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])
        del blocks

    def test_readers(self):
        """PyTorch's own reader of snapshots takes ours, with memory that has moved away since as well."""
        import torch.cuda._memory_viz as viz

        torch.cuda.memory._record_memory_history(max_entries=1000)
        try:
            block = empty(200 * MIB)
            del block
            torch.cuda.empty_cache()
            kept = empty(3 * MIB)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "snapshot.pickle")
                torch.cuda.memory._dump_snapshot(path)
                with open(path, "rb") as file:
                    snapshot = pickle.load(file)
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        self.assertIn("total_allocated", viz.segsum(snapshot))
        self.assertIn("free completed for a 200.0MiB", viz.trace(snapshot))
        del kept


if __name__ == "__main__":
    unittest.main()
