"""PyTorch's native allocator on the simulated driver: what the fake runtime has to be good for."""

import gc
import os
import subprocess
import sys
import unittest

import torch
import torch.multiprocessing as multiprocessing

import simulator

MIB = 1 << 20


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def apart(program, breaks_rules=False, **environment):
    """Runs a program in a process of its own."""
    environment = {**os.environ, **environment}
    if breaks_rules:
        del environment["SIMCUDA_VIOLATIONS"]
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.before = simulator.violations()
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def tearDown(self):
        torch.cuda.synchronize()
        self.assertEqual(simulator.violations(), self.before)


class Memory(Case):
    def test_device(self):
        self.assertTrue(torch.cuda.is_available())
        self.assertEqual(torch.cuda.get_device_name(0), "simcuda device")
        self.assertEqual(torch.cuda.get_device_properties(0).total_memory, int(os.environ["SIMCUDA_CAPACITY"]))

    def test_contents(self):
        there = torch.arange(1000.0).cuda()
        again = there.clone()
        self.assertTrue(torch.equal(again.cpu(), torch.arange(1000.0)))
        pinned = torch.arange(1000.0).pin_memory()
        self.assertTrue(pinned.is_pinned())
        self.assertTrue(torch.equal(pinned.cuda(non_blocking=True).cpu(), pinned))

    def test_a_freed_block_is_given_again(self):
        block = empty(30 * MIB)
        address = block.data_ptr()
        del block
        mallocs = simulator.calls("cuMemAlloc_v2")
        self.assertEqual(empty(30 * MIB).data_ptr(), address)
        self.assertEqual(simulator.calls("cuMemAlloc_v2"), mallocs)

    def test_statistics(self):
        small, large = empty(1000), empty(30 * MIB)
        stats = torch.cuda.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.current"], 1024 + 30 * MIB)
        self.assertEqual(stats["reserved_bytes.all.current"], 2 * MIB + 30 * MIB)
        self.assertEqual(stats["segment.all.current"], 2)
        del small, large
        stats = torch.cuda.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.current"], 0)
        self.assertEqual(stats["reserved_bytes.all.current"], 32 * MIB)

    def test_emptying_the_cache(self):
        free, total = torch.cuda.mem_get_info()
        block = empty(300 * MIB)
        self.assertEqual(torch.cuda.mem_get_info(), (free - 300 * MIB, total))
        del block
        self.assertEqual(torch.cuda.mem_get_info(), (free - 300 * MIB, total))
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), 0)
        self.assertEqual(torch.cuda.mem_get_info(), (free, total))

    def test_out_of_memory(self):
        _, total = torch.cuda.mem_get_info()
        cached = [empty(200 * MIB) for _ in range(4)]
        cached.clear()
        held = empty(total // 2)
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            empty(total // 2 + MIB)
        self.assertIn("CUDA out of memory. Tried to allocate", str(caught.exception))
        self.assertEqual(torch.cuda.memory_stats()["num_ooms"], 1)
        self.assertEqual(torch.cuda.memory_reserved(), held.numel())
        self.assertEqual(empty(100 * MIB).numel(), 100 * MIB)

    def test_snapshot(self):
        torch.cuda.memory._record_memory_history(max_entries=1000)
        try:
            kept = empty(30 * MIB)
            del kept
            kept = empty(1000)
            snapshot = torch.cuda.memory._snapshot()
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        actions = [entry["action"] for entry in snapshot["device_traces"][0]]
        self.assertEqual(actions.count("segment_alloc"), 2)
        self.assertEqual(actions.count("alloc"), 2)
        self.assertIn("free_completed", actions)
        self.assertEqual(sorted(segment["total_size"] for segment in snapshot["segments"]), [2 * MIB, 30 * MIB])
        frames = snapshot["device_traces"][0][0]["frames"]
        self.assertTrue(any("test_snapshot" in frame["name"] for frame in frames))
        del kept


UNRECORDED = """
import torch, simulator
side = torch.cuda.Stream()
block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
simulator.work(side, 5000, block, 1)
del block
block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
simulator.work(torch.cuda.current_stream(), 10, block, 2)
assert simulator.violations() == 1
"""


class Streams(Case):
    def test_events(self):
        stream = torch.cuda.Stream()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        block = empty(MIB)
        stream.wait_stream(torch.cuda.current_stream())
        begin.record(stream)
        simulator.work(stream, 2000, block, 7)
        end.record(stream)
        self.assertFalse(end.query())
        self.assertFalse(stream.query())
        end.synchronize()
        self.assertTrue(stream.query())
        self.assertAlmostEqual(begin.elapsed_time(end), 2, places=2)
        self.assertTrue(bool((block.cpu() == 7).all()))

    def test_a_stream_has_its_own_blocks(self):
        block = empty(30 * MIB)
        address = block.data_ptr()
        del block
        with torch.cuda.stream(torch.cuda.Stream()):
            self.assertNotEqual(empty(30 * MIB).data_ptr(), address)

    def test_recorded_stream(self):
        side = torch.cuda.Stream()
        block = empty(30 * MIB)
        address = block.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        simulator.work(side, 5000, block, 1)
        block.record_stream(side)
        del block
        other = empty(30 * MIB)
        self.assertNotEqual(other.data_ptr(), address)
        simulator.work(torch.cuda.current_stream(), 10, other, 2)
        side.synchronize()
        self.assertEqual(empty(30 * MIB).data_ptr(), address)

    def test_unrecorded_stream_is_seen(self):
        """The simulator would notice what the test above guards against."""
        done = apart(UNRECORDED, breaks_rules=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("simcuda: violation:", done.stderr)


BROKEN_CAPTURE = """
import torch
block = torch.zeros(1000).cuda()
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        block.clone()
        torch.cuda.synchronize()
except RuntimeError as error:
    print(error)
"""


class Graphs(Case):
    def test_replay(self):
        given, result = torch.zeros(1000).cuda(), torch.zeros(1000).cuda()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            between = given.clone()
            between.add_(0)
            result.copy_(between)
        for number in range(3):
            given.copy_(torch.full((1000,), float(number)))
            graph.replay()
            self.assertTrue(bool((result.cpu() == number).all()))
        pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory.memory_snapshot()}
        self.assertIn(tuple(graph.pool()), pools)
        del between
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

    def test_a_broken_capture(self):
        done = apart(BROKEN_CAPTURE, breaks_rules=True)
        self.assertIn("CUDA error", done.stdout)
        self.assertIn("simcuda: violation:", done.stderr)


class Pools(Case):
    def test_pool(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = empty(30 * MIB)
        outside = empty(30 * MIB)
        addresses = {segment["address"] for segment in pool.snapshot()}
        self.assertIn(inside.data_ptr(), addresses)
        self.assertNotIn(outside.data_ptr(), addresses)
        del inside, pool
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), 30 * MIB)


def receive(given, taken):
    """The other process: says what it sees, and writes something else."""
    tensor = given.get()
    seen = tensor.cpu().clone()
    tensor.copy_(torch.full((1000,), 2.0))
    torch.cuda.synchronize()
    taken.put((seen.tolist(), simulator.violations()))
    del tensor
    given.get()


class Processes(Case):
    def test_tensor_handed_over(self):
        context = multiprocessing.get_context("spawn")
        given, taken = context.Queue(), context.Queue()
        child = context.Process(target=receive, args=(given, taken))
        child.start()
        tensor = torch.full((1000,), 1.0).pin_memory().cuda()
        given.put(tensor)
        seen, violations = taken.get(timeout=120)
        self.assertEqual(seen, [1.0] * 1000)
        self.assertEqual(violations, 0)
        self.assertTrue(bool((tensor.cpu() == 2).all()))
        given.put(None)
        child.join(60)
        self.assertEqual(child.exitcode, 0)


EXPANDABLE = """
import torch, simulator
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
assert simulator.calls("cuMemCreate") > 0
there = torch.arange(1000.0).cuda()
assert torch.equal(there.clone().cpu(), torch.arange(1000.0))
del held, there
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0
"""

TWO_DEVICES = """
import threading, torch
first = torch.arange(1000.0).to("cuda:0")
second = first.to("cuda:1")
assert torch.equal(second.cpu(), torch.arange(1000.0))

def other():
    torch.cuda.set_device(1)
    assert torch.empty(10, device="cuda").device.index == 1

thread = threading.Thread(target=other)
thread.start()
thread.join()
assert torch.empty(10, device="cuda").device.index == 0
assert torch.cuda.memory_allocated(1) > 0
"""


class Apart(unittest.TestCase):
    def test_expandable_segments(self):
        done = apart(EXPANDABLE, PYTORCH_ALLOC_CONF="expandable_segments:True")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_two_devices(self):
        done = apart(TWO_DEVICES, SIMCUDA_DEVICES="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
