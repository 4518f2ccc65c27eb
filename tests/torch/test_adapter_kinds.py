"""The adapter where a program does what few do: each in a process of its own, with PyTorch's own allocator as the judge."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PRELUDE = """
import ctypes, gc, os, sys, threading, time
import torch, simulator
MIB = 1 << 20
def empty(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)
"""


def setUpModule():
    if "libcenote" not in os.environ.get("LD_PRELOAD", ""):
        raise unittest.SkipTest("there is no adapter without the library")


class Case(unittest.TestCase):
    def run_it(self, text, conf="torch:adapter", devices=1, **more):
        env = {**os.environ, "CENOTE_CONF": conf, "SIMCUDA_DEVICES": str(devices), **more}
        done = subprocess.run([sys.executable, "-c", PRELUDE + text], env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("violation", done.stderr)
        return done.stdout.strip()


class Memory(Case):
    def test_a_graph_on_a_stream_that_never_allocated(self):
        said = self.run_it("""
torch.cuda.init()
capture, side = torch.cuda.Stream(), torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=capture):
    inside = empty(4 * MIB)
    simulator.work(capture, 100000, inside, 5)
del inside
torch.cuda.synchronize()
with torch.cuda.stream(side):
    graph.replay()
    done = torch.cuda.Event()
    done.record()
graph.reset()
del graph
torch.cuda.empty_cache()
others = [empty(2 * MIB) for _ in range(20)]
for block in others:
    simulator.work(torch.cuda.current_stream(), 10, block, 7)
torch.cuda.synchronize()
print(simulator.violations())
""")
        self.assertEqual(said, "0")

    def test_memory_that_pytorch_kept_from_before(self):
        said = self.run_it("""
block = empty(6 << 30)
del block
print(ctypes.CDLL(None).cenote_torch_adapter(), torch.cuda.get_allocator_backend(), empty(4 << 30).numel())
""", conf="")
        self.assertEqual(said, f"0 cenote {4 << 30}")

    def test_errors_that_are_not_out_of_memory(self):
        said = self.run_it("""
torch.cuda.init()
try:
    empty(300 * MIB)
except torch.OutOfMemoryError:
    print("out of memory")
except RuntimeError as error:
    print("error 700" if "driver's error 700" in str(error) else error)
""", SIMCUDA_FAIL="cuMemCreate:*=700")
        self.assertEqual(said, "error 700")

    def test_a_stream_of_another_device(self):
        said = self.run_it("""
torch.cuda.init()
other = torch.cuda.Stream(device=1)
for _ in range(5):
    block = empty(100 * MIB, "cuda:0")
    block.record_stream(other)
    del block
for device in (0, 1):
    torch.cuda.synchronize(device)
torch.cuda.empty_cache()
stats = torch.cuda.memory_stats(0)
print(stats["active_bytes.all.current"], stats["reserved_bytes.all.current"])
""", devices=2)
        self.assertEqual(said, "0 0")

    def test_a_rounded_block_of_an_earlier_state(self):
        said = self.run_it("""
torch.cuda.init()
pool, graph = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.Stream()):
    block = empty(60 << 10)
state = torch._C._cuda_getCheckpointState(0, pool)
torch._C._cuda_setCheckpointPoolState(0, state, [block.untyped_storage()._cdata], [])
print(torch._C._cuda_checkPoolLiveAllocations(0, pool, {block.data_ptr()}), flush=True)
os._exit(0)
""", conf="torch:adapter,roundup_power2_divisions:4")
        self.assertEqual(said, "True")

    def test_a_pool_that_ends_leaves_the_cache(self):
        said = self.run_it("""
block = empty(200 * MIB)
del block
pool = torch.cuda.MemPool()
del pool
gc.collect()
print(torch.cuda.memory_reserved() >= 200 * MIB)
""")
        self.assertEqual(said, "True")


class Settings(Case):
    def test_whatever_pytorch_is_told_of_its_allocator(self):
        for setting in ("backend:native", "expandable_segments:True", "max_split_size_mb:128,garbage_collection_threshold:0.8"):
            said = self.run_it("empty(MIB); print(torch.cuda.get_allocator_backend())", PYTORCH_CUDA_ALLOC_CONF=setting)
            self.assertEqual(said, "cenote", setting)

    def test_what_changes_nothing_puts_nothing_in(self):
        said = self.run_it("empty(MIB); print(torch.cuda.get_allocator_backend())", conf="torch:adapter,mode:observe")
        self.assertEqual(said, "native")

    def test_the_first_tensor_is_in_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            self.run_it("kept = empty(300 * MIB); os._exit(0)", CENOTE_OUTPUT=path)
            with open(path) as file:
                (device,) = json.load(file)["devices"]
        live = sum(owner["bytes"] for owner in device["memory"]["by_owner"])
        self.assertGreaterEqual(live, 300 << 20)


class Numbers(Case):
    def test_in_a_forked_child(self):
        said = self.run_it("""
torch.cuda.init()
library = ctypes.CDLL(None)
def work():
    with torch.cuda.stream(torch.cuda.Stream()):
        while True:
            empty(64 * MIB)
            torch.cuda.empty_cache()
threading.Thread(target=work, daemon=True).start()
kept = empty(MIB)
buffer = (ctypes.c_char * 2048)()
hung = 0
for number in range(20):
    child = os.fork()
    if child == 0:
        ctypes.cast(buffer, ctypes.POINTER(ctypes.c_size_t))[0] = 400
        (library.cenote_stats if number % 2 else library.cenote_usage)(0, buffer)
        os._exit(0)
    for _ in range(300):
        time.sleep(0.01)
        if os.waitpid(child, os.WNOHANG)[0]:
            break
    else:
        hung += 1
        os.kill(child, 9)
        os.waitpid(child, 0)
print(hung, flush=True)
os._exit(0)
""")
        self.assertEqual(said, "0")

    def test_totals_never_fall(self):
        said = self.run_it("""
for _ in range(3):
    blocks = [empty(1000) for _ in range(2000)] + [empty(3 * MIB) for _ in range(20)]
    torch.cuda.memory_stats()
    del blocks
    torch.cuda.empty_cache()
    torch.cuda.memory_stats()
torch.cuda.reset_accumulated_memory_stats()
empty(MIB)
torch.cuda.empty_cache()
print([key for key, value in torch.cuda.memory_stats().items() if value < 0 and key != "max_split_size"])
""")
        self.assertEqual(said, "[]")

    def test_history_names_the_blocks_own_device_and_the_time(self):
        said = self.run_it("""
torch.cuda.init()
torch.cuda.memory._record_memory_history(max_entries=1000)
block = empty(3 * MIB, "cuda:1")
del block
traces = torch.cuda.memory._snapshot()["device_traces"]
torch.cuda.memory._record_memory_history(enabled=None)
print([[entry["action"] for entry in trace if "segment" not in entry["action"]] for trace in traces])
print(abs(traces[1][0]["time_us"] - time.time() * 1e6) < 60e6)
""", devices=2)
        self.assertEqual(said.splitlines(), ["[[], ['alloc', 'free_requested', 'free_completed']]", "True"])

    def test_a_snapshot_of_one_pool(self):
        said = self.run_it("""
path = os.path.join(os.environ["CENOTE_STAGE"], "libcenote.so")
own = torch.cuda.memory.CUDAPluggableAllocator(path, "cenote_torch_alloc", "cenote_torch_free")
pools = [torch.cuda.MemPool(own.allocator()) for _ in range(2)]
blocks = []
for pool in pools:
    with torch.cuda.use_mem_pool(pool):
        blocks.append(empty(30 * MIB))
print([len(pool.snapshot()) for pool in pools], flush=True)
os._exit(0)
""")
        self.assertEqual(said, "[1, 1]")


if __name__ == "__main__":
    unittest.main()
