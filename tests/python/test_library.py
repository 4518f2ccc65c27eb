"""The package on the real library, under the simulated driver and without PyTorch."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import package

LIBRARY = package.STAGE / "libcenote.so"
START = """
import ctypes, sys
sys.path.insert(0, {tests!r})
import package, cenote
driver = ctypes.CDLL("libcuda.so.1")
library = ctypes.CDLL(None if {preloaded} else {library!r})
if not {preloaded}: cenote._library.open_library({library!r})
def get(size):
    block = ctypes.c_void_p()
    code = library.cenote_alloc(ctypes.c_size_t(size), 0, None, ctypes.byref(block))
    return block if code == 0 else code
def start():
    assert driver.cuInit(0) == 0
    context = ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
"""


def run(program, preloaded=True, **environment):
    """Runs a program in a process of its own, in a folder of its own; gives its output, complaints, and reports."""
    start = START.format(tests=str(Path(__file__).parent), library=str(LIBRARY), preloaded=preloaded)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "LD_LIBRARY_PATH": str(package.STAGE / "sim"),
            "CENOTE_OUTPUT": f"{folder}/own.json",
            "CENOTE_RUNTIME_DIR": folder,
            "SIMCUDA_SHARED": folder,
            "SIMCUDA_CAPACITY": str(1 << 30),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        preload = {"LD_PRELOAD": str(LIBRARY)} if preloaded else {}
        environment = {**os.environ, **settings, **preload, **environment}
        command = [sys.executable, "-c", start + program]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        reports = {path.name: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.split("\n"), done.stderr, reports


@unittest.skipUnless(LIBRARY.exists(), "scripts/build makes the library")
class Library(unittest.TestCase):
    def test_numbers(self):
        program = """
print(cenote.library_version() == cenote.__version__, cenote.stats()["allocated_bytes"]["current"])
start()
block = get(3 << 20)
cenote.mark("one"), cenote.mark()
now = cenote.stats()
print(now["allocated_bytes"]["current"], now["marks"], now["limit_bytes"], now["device_total_bytes"])
print(library.cenote_free(block), cenote.stats()["allocated_bytes"]["current"], cenote.trim() > 0, cenote.trim())
print(cenote.reset_peaks(), cenote.stats(0, usage=False)["allocated_bytes"]["peak"], "pending_bytes" in cenote.stats(usage=False))
print(cenote.stats(1000))
"""
        for preloaded in (True, False):
            out, complaints, _ = run(program, preloaded)
            total = str(1 << 30)
            self.assertEqual(out[:5], ["True 0", f"{3 << 20} 2 None {total}", "0 0 True 0", "True 0 False", "{}"])
            self.assertEqual(complaints, "")

    def test_limit(self):
        program = """
print(cenote.limit(1 << 26))
start()
print(cenote.limit(1 << 26), cenote.stats()["limit_bytes"], get(1 << 27))
print(cenote.limit(None), cenote.stats()["limit_bytes"], type(get(1 << 27)).__name__)
"""
        for preloaded in (True, False):
            self.assertEqual(run(program, preloaded)[0][:3], ["False", f"True {1 << 26} 2", "True None c_void_p"])

    def test_dump(self):
        program = """
print(cenote.dump())
start()
block = get(3 << 20)
print(cenote.dump("named.json"), cenote.dump("named.json"), cenote.dump(), cenote.dump("/proc/no.json"))
"""
        out, _, reports = run(program)
        self.assertEqual(out[0], "None")
        named, again, own, failed = out[1].split()
        self.assertEqual((named, again, own.rpartition("/")[2], failed), ("named.json", "named.json", "own.json", "None"))
        self.assertEqual(set(reports), {"named.json", "own.json"})
        self.assertEqual(reports["named.json"]["reason"], "request")
        self.assertEqual(reports["own.json"]["reason"], "exit")
        self.assertIn("report_not_written", [note["code"] for note in reports["own.json"]["notes"]])

    def test_no_dump_of_a_library_that_is_not_preloaded(self):
        out, _, reports = run("start(); get(1 << 20); print(cenote.dump())", preloaded=False)
        self.assertEqual((out[0], reports), ("None", {}))

    def test_out_of_memory(self):
        program = """
start()
kept = [get(600 << 20)]
def give(device, size):
    print("asked", device, size >> 20)
    if not kept: return False
    library.cenote_free(kept.pop())
    return True
print(cenote.on_oom(give))
import gc; gc.collect()
print(type(get(700 << 20)).__name__, get(700 << 20))
cenote.on_oom(lambda device, size: 1 / 0)
print(get(700 << 20))
print(cenote.on_oom(None), get(700 << 20))
"""
        for preloaded in (True, False):
            out, complaints, _ = run(program, preloaded)
            self.assertEqual(out[:6], ["True", "asked 0 700", "asked 0 700", "c_void_p 2", "2", "True 2"])
            self.assertEqual(complaints.count("the callback of on_oom failed"), 1)
            self.assertIn("ZeroDivisionError", complaints)

    def test_switched_off(self):
        out, _, reports = run("start(); print(cenote.is_loaded(), cenote.dump(), cenote.trim())", CENOTE_DISABLE="1")
        self.assertEqual((out[0], reports), ("True None 0", {}))


if __name__ == "__main__":
    unittest.main()
