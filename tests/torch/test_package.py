"""The Python package on the real PyTorch: with the adapter where the library is preloaded, else on PyTorch's own allocator."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CENOTE_CACHE_DIR", str(ROOT / "target" / "torch-sim" / "cache"))

import torch

import cenote.torch

import simulator

MIB = 1 << 20
LIBRARY = Path(os.environ["CENOTE_STAGE"]) / "libcenote.so"
PRELOADED = cenote.is_loaded()
IS_ADAPTER = PRELOADED and cenote.torch.enable()


def empty(size, kind=torch.uint8):
    return torch.empty(size, dtype=kind, device="cuda")


def apart(program, **environment):
    """Runs a program in a process of its own; its lines."""
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import torch, cenote, cenote.torch\n"
    environment = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", start + program], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout.splitlines()


class Case(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.before = simulator.violations()

    def tearDown(self):
        torch.cuda.synchronize()
        self.assertEqual(simulator.violations(), self.before)


class Enable(Case):
    def test_here(self):
        self.assertEqual(torch.cuda.get_allocator_backend(), "cenote" if PRELOADED else "native")

    @unittest.skipUnless(PRELOADED, "needs the library preloaded")
    def test_before_cuda_after_it_and_by_the_configuration(self):
        program = "{first}\nprint(cenote.torch.enable(), cenote.torch.enable(), torch.cuda.get_allocator_backend())\n"
        program += "print(torch.empty(5 << 20, dtype=torch.uint8, device='cuda').numel(), torch.cuda.get_allocator_backend())\n"
        program += "print(cenote.stats()['allocated_bytes']['peak'])"
        early, late = "", "kept = torch.empty(7 << 20, dtype=torch.uint8, device='cuda')"
        for first, conf in ((early, ""), (late, ""), (early, "torch:adapter"), (late, "torch:adapter")):
            peak = 12 * MIB if first and conf else 5 * MIB
            lines = apart(program.format(first=first), CENOTE_CONF=conf)
            self.assertEqual(lines, ["True True cenote", f"{5 * MIB} cenote", str(peak)], (first, conf))

    @unittest.skipUnless(PRELOADED, "needs the library preloaded")
    def test_memory_of_the_allocator_before_goes_back_to_it(self):
        program = """
kept = torch.empty(7 << 20, dtype=torch.uint8, device="cuda")
own = torch.cuda.memory_reserved()
cenote.torch.enable()
del kept
print(own, cenote.stats()["invalid_frees"], torch.cuda.memory_allocated())
"""
        own, _, allocated = apart(program, CENOTE_CONF="")[0].split()
        self.assertEqual((own, allocated), (str(20 * MIB), "0"))

    @unittest.skipUnless(PRELOADED, "needs the library preloaded")
    def test_what_forbids_it(self):
        program = "import warnings; warnings.simplefilter('ignore')\nprint(cenote.torch.enable(), torch.cuda.get_allocator_backend())"
        for forbidden in ({"CENOTE_CONF": "mode:off"}, {"CENOTE_DISABLE": "1"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}):
            self.assertEqual(apart(program, **forbidden), ["False native"], forbidden)

    @unittest.skipUnless(PRELOADED, "needs the library preloaded")
    def test_without_a_compiler_it_is_pluggable(self):
        program = "print(cenote.torch.enable(), torch.cuda.get_allocator_backend())"
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            none = {"CENOTE_CACHE_DIR": folder, "CXX": "/nowhere/g++", "CENOTE_CONF": ""}
            self.assertEqual(apart(program, **none), ["True pluggable"])

    @unittest.skipIf(PRELOADED, "needs the library not preloaded")
    def test_without_the_library(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertFalse(cenote.torch.enable())
            self.assertFalse(cenote.torch.enable())
        self.assertEqual(len(said), 1)
        self.assertIn("cenote run --torch", str(said[0].message))

    @unittest.skipIf(PRELOADED, "needs the library not preloaded")
    def test_the_pluggable_allocator(self):
        program = """
print(cenote.torch.enable(), cenote.torch.enable(), torch.cuda.get_allocator_backend(), cenote.is_loaded())
kept = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
print(cenote.stats()["allocated_bytes"]["current"], torch.empty(0, device="cuda").numel())
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    print(type(error).__name__, error)
print(torch.empty(500 << 20, dtype=torch.uint8, device="cuda").numel())
side = torch.cuda.Stream()
kept.record_stream(side)
del kept
torch.cuda.set_per_process_memory_fraction(0.5)
print(cenote.stats()["allocated_bytes"]["current"], cenote.stats()["limit_bytes"])
torch.cuda.empty_cache()
def step(batch):
    torch.empty(batch << 20, dtype=torch.uint8, device="cuda")
print(cenote.torch.fit_batch(step, 1, 5000))
print(cenote.torch.all_ranks()["ranks"][0]["allocated_peak"] > 0)
with cenote.torch.switch() as left:
    more = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
print(left.bytes, left.holders[0]["names"])
"""
        lines = apart(program, CENOTE_LIBRARY=str(LIBRARY), SIMCUDA_CAPACITY=str(1 << 30))
        self.assertEqual(lines[0], "True True pluggable True")
        self.assertEqual(lines[1:4], [f"{5 * MIB} 0", "RuntimeError std::bad_alloc", str(500 * MIB)])
        self.assertEqual(lines[4:], [f"0 {1 << 29}", "512", "True", f"{3 * MIB} ['__main__.more']"])

    @unittest.skipIf(PRELOADED, "needs the library not preloaded")
    def test_the_pluggable_allocator_comes_too_late(self):
        program = "import warnings; warnings.simplefilter('ignore'); torch.cuda.init(); print(cenote.torch.enable())"
        self.assertEqual(apart(program, CENOTE_LIBRARY=str(LIBRARY)), ["False"])


@unittest.skipUnless(IS_ADAPTER, "needs the adapter")
class Numbers(Case):
    def test_they_are_pytorchs(self):
        kept = [empty(1000), empty(30 * MIB), empty(5 * MIB)]
        kept.pop(1)
        theirs, ours = torch.cuda.memory_stats(), cenote.torch.stats()
        for name in ("allocated_bytes", "requested_bytes", "reserved_bytes"):
            for kind in ("current", "peak"):
                self.assertEqual(ours[name][kind], theirs[f"{name}.all.{kind}"], (name, kind))
        self.assertEqual(ours["blocks"]["current"], theirs["allocation.all.current"])
        self.assertEqual(ours["inactive_split_bytes"], theirs["inactive_split_bytes.all.current"])
        self.assertEqual(ours["device_total_bytes"], torch.cuda.mem_get_info()[1])

    def test_out_of_memory_calls_back(self):
        total = torch.cuda.mem_get_info()[1]
        cache, asked = [empty(total // 2)], []

        def give(device, size):
            asked.append((device, size))
            found = bool(cache)
            cache.clear()
            return found

        self.assertTrue(cenote.torch.on_oom(give))
        try:
            self.assertEqual(empty(total // 2 + 64 * MIB).numel(), total // 2 + 64 * MIB)
            self.assertEqual(asked, [(0, total // 2 + 64 * MIB)])
            with self.assertRaises(torch.OutOfMemoryError):
                empty(2 * total)
        finally:
            cenote.torch.on_oom(None)
        with self.assertRaises(torch.OutOfMemoryError):
            empty(2 * total)
        self.assertEqual(len(asked), 2)

    def test_the_limit(self):
        self.assertTrue(cenote.torch.limit(64 * MIB))
        try:
            self.assertRaises(torch.OutOfMemoryError, empty, 65 * MIB)
        finally:
            self.assertTrue(cenote.torch.limit(None))
        self.assertEqual(empty(65 * MIB).numel(), 65 * MIB)

    def test_the_report(self):
        kept = empty(3 * MIB)
        with tempfile.TemporaryDirectory() as folder:
            path = cenote.torch.dump(f"{folder}/now.json")
            report = json.loads(Path(path).read_text())
        self.assertEqual(path, f"{folder}/now.json")
        self.assertEqual(report["schema"], "cenote.report/1")
        del kept

    def test_marks(self):
        before = cenote.stats()["marks"]
        cenote.torch.mark("step 1")
        self.assertEqual(cenote.stats()["marks"], before + 1)


class Fit(Case):
    def step(self, batch):
        self.trials.append(batch)
        first = empty(10 * MIB)
        return [first, *(empty(batch * 4 * MIB) for _ in range(3))]

    def fit(self, step, lo, hi):
        self.trials = []
        before = torch.cuda.memory_allocated()
        found = cenote.torch.fit_batch(step, lo, hi)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        return found

    def test_the_largest(self):
        found = self.fit(self.step, 1, 10_000)
        self.assertLessEqual(len(self.trials), 4 if IS_ADAPTER else 12)
        self.trials = []
        self.step(found)
        gc.collect()
        self.assertRaises(torch.OutOfMemoryError, self.step, found + 1)
        gc.collect()
        torch.cuda.empty_cache()

    def test_under_a_fraction(self):
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(0.25)
        try:
            found = self.fit(self.step, 1, 10_000)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertLessEqual((10 + 12 * found) * MIB, total // 4)
        self.assertGreater((10 + 12 * (found + 2)) * MIB, total // 4)

    def test_all_and_none(self):
        self.assertEqual(self.fit(self.step, 1, 16), 16)
        self.assertEqual(self.trials, [1, 2, 16])
        self.assertEqual(self.fit(self.step, 5000, 6000), 0)
        self.assertEqual(self.trials, [5000])

    def test_training(self):
        total = torch.cuda.mem_get_info()[1]
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
        optimiser = torch.optim.Adam(model.parameters())

        def step(batch):
            data = torch.empty(batch, 1 << 20, device="cuda")
            kept = [data * 2 for _ in range(3)]
            for parameter in model.parameters():
                parameter.grad = torch.empty_like(parameter)
            optimiser.step()
            return kept

        found = cenote.torch.fit_batch(step, 1, 100_000)
        self.assertGreater(found * 16 * MIB, 0.9 * total)
        held = sum(parameter.numel() for parameter in model.parameters()) * 4
        self.assertLess(torch.cuda.memory_allocated(), 5 * held)
        self.assertLess(torch.cuda.memory_reserved(), 5 * held + 64 * MIB)

    def test_other_errors_pass_through(self):
        with self.assertRaises(ZeroDivisionError):
            cenote.torch.fit_batch(lambda batch: 1 / 0, 1, 8)


HELD = []


class Switch(Case):
    def test_nothing_stays(self):
        with cenote.torch.switch() as left:
            model = torch.nn.Linear(1024, 1024).cuda()
            del model
        self.assertEqual((left.bytes, left.holders, left.unexplained), (0, [], 0))
        self.assertGreater(left.released, 4 * MIB - 1)

    def test_a_cycle_is_collected(self):
        with cenote.torch.switch() as left:
            loop = [torch.nn.Linear(1024, 1024).cuda()]
            loop.append(loop)
            del loop
        self.assertEqual(left.bytes, 0)

    def test_who_holds_it(self):
        before = empty(MIB)
        with cenote.torch.switch() as left:
            model = torch.nn.Sequential(torch.nn.Linear(1024, 1024, bias=False)).cuda()
            HELD.append(empty(2 * MIB))
        self.assertEqual(left.bytes, 6 * MIB)
        weight, other = left.holders
        self.assertEqual((weight["type"], weight["shape"], weight["dtype"]), ("Parameter", [1024, 1024], "float32"))
        self.assertEqual((weight["bytes"], other["bytes"], left.unexplained), (4 * MIB, 2 * MIB, 0))
        self.assertEqual(weight["names"], ["model.0.weight in test_who_holds_it()"])
        self.assertEqual(other["names"], [f"{__name__}.HELD[0]"])
        self.assertIn("4.00 MiB Parameter[1024, 1024] float32: model.0.weight in test_who_holds_it()", str(left))
        HELD.clear()
        allocated = torch.cuda.memory_allocated()
        del model
        gc.collect()
        self.assertEqual(allocated - torch.cuda.memory_allocated(), 4 * MIB)
        del before

    def test_what_python_does_not_see(self):
        leaf = torch.empty(2 * MIB, dtype=torch.float32, device="cuda", requires_grad=True)
        with cenote.torch.switch() as left:
            loss = (leaf * 2).exp()
        self.assertEqual(left.bytes, 8 * MIB)
        self.assertEqual(left.holders[0]["names"], ["loss in test_what_python_does_not_see()"])
        del loss
        with cenote.torch.switch() as left:
            loss = (leaf * 2).exp().sum()
        self.assertEqual((left.bytes, left.unexplained), (8 * MIB + 512, 8 * MIB))
        self.assertIn("8.00 MiB of no living tensor", str(left))
        del loss

    def test_views_count_once(self):
        with cenote.torch.switch() as left:
            whole = empty(4 * MIB)
            parts = whole.chunk(4)
        self.assertEqual((left.bytes, len(left.holders), left.unexplained), (4 * MIB, 1, 0))
        del parts

    def test_an_error_goes_on(self):
        with self.assertRaises(ZeroDivisionError), cenote.torch.switch():
            1 / 0


ONE_RANK = """
import os, torch.distributed as distributed
rank = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ["RANK"])
distributed.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=2)
kept = torch.empty((1 + 2 * rank) << 20, dtype=torch.uint8, device="cuda")
found = cenote.torch.all_ranks()
print([row["rank"] for row in found["ranks"]], found["imbalance"]["allocated"], found["text"].partition(",")[0])
distributed.destroy_process_group()
"""


class Ranks(Case):
    def test_one(self):
        kept = empty(5 * MIB)
        found = cenote.torch.all_ranks()
        self.assertEqual(len(found["ranks"]), 1)
        self.assertEqual(found["ranks"][0]["allocated"], torch.cuda.memory_allocated())
        self.assertEqual(found["imbalance"]["allocated"]["ratio"], 1)
        del kept

    def test_two(self):
        with tempfile.TemporaryDirectory() as folder:
            start = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import torch, cenote, cenote.torch\n"
            environments = [{**os.environ, "MEETING": f"{folder}/meeting", "RANK": str(rank)} for rank in range(2)]
            command = [sys.executable, "-c", start + ONE_RANK]
            ranks = [subprocess.Popen(command, env=each, stdout=subprocess.PIPE, text=True) for each in environments]
            lines = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
        imbalance = {"max": 3 * MIB, "rank": 1, "mean": 2.0 * MIB, "ratio": 1.5}
        self.assertEqual(lines[0], lines[1])
        self.assertTrue(lines[0].startswith(f"[0, 1] {imbalance} "), lines[0])


if __name__ == "__main__":
    unittest.main()
