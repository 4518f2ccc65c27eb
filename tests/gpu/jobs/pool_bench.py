"""One allocator through the peers' door: `pool_bench.py WHO [PART ...]`, one JSON line a figure.

WHO is one of the peers' measure.py, whose set-up of allocator, streams and trim is used as it is, and whose harness
measures pairs, mixes, threads and replays; pool_bench.cpp measures the rest. Every part begins with an emptied pool. A
figure is a number of which less is better, but for the rates of the threads: million operations a second.
"""

import argparse
import ctypes as C
import importlib.util
import json
import os
import pathlib
import signal
import sys
import time
import zlib

MIB = 1 << 20
SIZES = {"512": 512, "1m": MIB, "20m": 20 * MIB}
COUNTS = (1, 2, 4, 8, 16)
GRID = [(count, most) for count in (1000, 10_000, 100_000) for most in (1, 4, 64, 256, 1024, 4096)]
MOST_SECONDS = 10.0  # of one cell of the grid: whoever searches a list of 36,000 blocks is stopped, and named
LONG_SECONDS = 1.5  # in a cell that takes longer what the pool grew by does not show: it is measured once

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("who")
arguments.add_argument("parts", nargs="+", choices=("latency", "grid", "dali", "replay", "capacity"))
arguments.add_argument("--peers", type=pathlib.Path, required=True, help="folder of measure.py and harness.so")
arguments.add_argument("--library", required=True, help="pool_bench.so")
arguments.add_argument("--brief", action="store_true", help="without what takes seconds for a slow allocator")
arguments.add_argument("--until", type=float, help="time on the monotonic clock at which this process ends itself")
arguments.add_argument("--traces", type=pathlib.Path, help="folder of traces")
args = arguments.parse_args()


def show(figure, value):
    print(json.dumps({"figure": figure, "value": value}), flush=True)


def door():
    """The peers' measure.py as a module: asked for a replay of no traces it only sets up what it measures with."""
    spec = importlib.util.spec_from_file_location("measure", args.peers / "measure.py")
    module, sys.argv = importlib.util.module_from_spec(spec), ["measure.py", args.who, "replay"]
    spec.loader.exec_module(module)
    return module


def rate(measure, count, size):
    """Rate of `count` threads over about 0.2 s: one number of pairs for all would be 6 s here and 6 ms there."""

    def threads(pairs):
        return measure.harness.threads(measure.alloc, measure.free, measure.streams, count, C.c_size_t(size), pairs)

    probe = threads(2000)
    return threads(max(2000, min(1_000_000, int(probe * 1e6 * 0.2 / count))))


def latency(measure, bench):
    pair = (measure.alloc, measure.free)
    for name, size in SIZES.items():
        found = [measure.harness.hot_pair(*pair, C.c_size_t(size), None, 50_000) for _ in range(3)]
        show(f"hot:{name}", round(min(found), 2))
        out = (C.c_double * 7)()
        if bench.hit_times(*pair, C.c_size_t(size), None, 100_000, out):
            for place, kind in enumerate(("alloc p50", "alloc p99", "alloc max", "free p50", "free p99", "free max")):
                show(f"hit:{name}:{kind}", round(out[place], 1))
            show("clock", round(out[6], 1))
    show("mix", round(measure.harness.random_mix(*pair, None, 1000, 50_000, 24), 2))
    measure.trim()
    show("live", round(bench.live_mix(*pair, None, 36_000, 20, 100_000, C.c_double(1)), 2))
    measure.trim()
    for count in (1, 16) if args.brief else COUNTS:
        show(f"threads:{count}", round(rate(measure, count, MIB), 4))
        show(f"threadmix:{count}", round(rate(measure, count, 0), 4))


def grid(measure, bench):
    """Each cell from an emptied pool, then again from what that has left: RMM keeps its pool between repetitions."""
    out = (C.c_int64 * 2)()
    for count, most in GRID:
        if args.brief and count > 10_000:
            continue
        for kind in ("cold", "warm"):
            if kind == "cold":
                measure.trim()
            begin = time.monotonic()
            limit = C.c_double(MOST_SECONDS)
            found = bench.random_grid(measure.alloc, measure.free, None, count, most, limit, out)
            show(f"grid:{count}/{most}:{kind}", round(found, 2))
            if out[0] < 2 * count:
                show(f"cut:grid:{count}/{most}:{kind}", out[0])
            if out[1]:
                show(f"refused:grid:{count}/{most}:{kind}", out[1])
            if kind == "cold" and time.monotonic() - begin > LONG_SECONDS:
                show(f"grid:{count}/{most}:warm", round(found, 2))
                break


def dali(measure, bench):
    """100,000 steps, or what fits in half a second."""
    out, shared = (C.c_int64 * 2)(), (C.c_void_p * 16)(*[measure.own[0]] * 16)
    for name, streams, count in (("1", measure.streams, 1), ("16 own", measure.streams, 16), ("16 shared", shared, 16)):
        measure.trim()
        for kind in ("cold", "warm"):
            found = bench.dali_mix(measure.alloc, measure.free, streams, count, 100_000, C.c_double(0.5), out)
            show(f"dali:{name}:{kind}", round(found, 2))
            if out[1]:
                show(f"refused:dali:{name}:{kind}", out[1])


def capped(measure, data, peak, ratio):
    """Nanoseconds per operation with that much of the device left, None where it is too little."""
    measure.trim()
    ballast = C.c_void_p()
    if measure.runtime.cudaMalloc(C.byref(ballast), C.c_size_t(measure.free_bytes() - int(peak * ratio))):
        raise MemoryError("no ballast")
    spent, (failed, _, _, operations) = measure.run(data, False)
    measure.torch.cuda.synchronize()
    measure.trim()
    measure.runtime.cudaFree(ballast)
    return spent / max(1, operations) * 1e9 if failed < 0 else None


def replay(measure, with_cap):
    """measure.py's replay and capacity, with one capacity more: 16 MiB above the peak."""
    for path in sorted(args.traces.glob("*.trz"), key=lambda path: path.stat().st_size):
        name, data = path.stem, zlib.decompress(path.read_bytes())
        measure.trim()
        before = measure.free_bytes()
        spent, (failed, peak, least_free, operations) = measure.run(data, True)
        if failed >= 0:
            show(f"failed:{name}", failed)
            continue
        show(f"peak:{name}", peak)
        show(f"reserved:{name}", round((before - least_free) / peak, 4))
        show(f"replay:{name}", round(spent / max(1, operations) * 1e9, 1))
        for ratio in sorted({*measure.CAPACITIES, 1 + 16 * MIB / peak}) if with_cap else ():
            found = capped(measure, data, peak, ratio)
            if found is not None:
                show(f"min_cap:{name}", round(ratio, 5))
                show(f"capped:{name}", round(found, 1))
                break
            show(f"too_small:{name}", round(ratio, 5))


def main():
    if args.until:
        # An alarm ends a replay in the midst of C code too; what was printed by then counts.
        signal.setitimer(signal.ITIMER_REAL, max(0.1, args.until - time.monotonic()))
    measure, bench = door(), C.CDLL(args.library)
    for function in ("live_mix", "random_grid", "dali_mix"):
        getattr(bench, function).restype = C.c_double
    parts = {
        "latency": lambda: latency(measure, bench),
        "grid": lambda: grid(measure, bench),
        "dali": lambda: dali(measure, bench),
        "replay": lambda: replay(measure, False),
        "capacity": lambda: replay(measure, True),
    }
    for part in args.parts:
        measure.trim()
        begin = time.monotonic()
        parts[part]()
        show(f"seconds:{part}", round(time.monotonic() - begin, 1))
    sys.stdout.flush()
    os._exit(0)  # what an allocator does at exit with its own and others' memory is no figure


main()
