"""Checks of time. They run alone on the card."""

import statistics
import sys

from check import Check, fact, fail, verdict
from lab import LIBRARY, WORKLOADS, Command


def pairs(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    ratios = {size: plain[f"ns_{size}"] / preload[f"ns_{size}"] for size in ("1m", "64m")}
    shown = ", ".join(
        f"{size} {preload[f'ns_{size}']:.0f} ns (plain {plain[f'ns_{size}']:.0f}, {ratio:.0f} x)"
        for size, ratio in ratios.items()
    )
    return verdict(min(ratios.values()) >= 50, f"{shown}; target 50 x", ratios=ratios)


def busy(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    good = (
        preload["free_us_max"] < 5
        and preload["returned_while_running"] == preload["rounds"]
        and preload["longest_launch_us"] < 10_000
    )
    ours, theirs = (f"{r['longest_launch_us']:.0f} + {r['longest_wait_us']:.0f}" for r in (preload, plain))
    return verdict(
        good,
        f"free {preload['free_us_median']:.2f} us, max {preload['free_us_max']:.2f}, target 5 (plain "
        f"{plain['free_us_median'] / 1000:.0f} ms); neighbour's longest launch + wait {ours} us (plain {theirs})",
    )


def recorded(runs):
    cost = runs["plain"].result
    if "missing" in cost:
        return fact(f"this driver has no {cost['missing']}")
    idle, busy = (f"{cost[f'{state}_us']:.3f} us (max {cost[f'{state}_us_max']:.0f})" for state in ("idle", "busy"))
    return fact(f"cuCtxRecordEvent idle {idle}, under a kernel {busy}", **cost)


def started(runs):
    times, size = runs["both"].result, LIBRARY.stat().st_size
    more = times["preload_ms"] - times["plain_ms"]
    good = more <= 1 and size <= 4 << 20
    return verdict(
        good,
        f"true {times['plain_ms']:.2f} ms, under the preload {more:+.2f} ms (target 1); "
        f"library {size / 2**20:.2f} MiB (target 4)",
    )


def step_time(runs):
    medians = {label: run.result["median_step_s"] * 1000 for label, run in runs.items()}
    native = [value for label, value in medians.items() if label.startswith("native")]
    preload = [value for label, value in medians.items() if label.startswith("preload")]
    if not native or len(native) != len(preload):
        return fail(f"{len(native)} native runs, {len(preload)} preloaded ones")
    # Native against itself: every second run against the others.
    noise = (
        abs(statistics.median(native[::2]) / statistics.median(native[1::2]) - 1) if len(native) > 1 else float("nan")
    )
    spread = max(native) / min(native) - 1
    ours, theirs = statistics.median(preload), statistics.median(native)
    return verdict(
        ours / theirs <= 1.005,
        f"native {theirs:.2f} ms, preload {ours:.2f} ms, ratio {ours / theirs:.4f} (target 1.005); native against "
        f"itself {1 + noise:.4f}, its runs lie {spread:.2%} apart",
        native_ms=native,
        preload_ms=preload,
    )


def checks(lab):
    both = ("plain", False), ("preload", True)
    rounds, count, turns = (5, 100, 2) if lab.quick else (20, 500, 4)
    job = [sys.executable, str(WORKLOADS / "jobs.py"), "bert_large", "--steps", "24"]
    # A B, B A, A B, ...: a drift of the card's clock must not favour one of them.
    order = [
        (f"{kind}{turn}", kind == "preload")
        for turn in range(turns)
        for kind in (("native", "preload"), ("preload", "native"))[turn % 2]
    ]
    return [
        Check(
            "speed:pairs",
            "cudaMalloc + cudaFree, idle",
            [Command(label, lab.program("pairs"), preload) for label, preload in both],
            pairs,
            12,
            True,
        ),
        Check(
            "speed:busy_free",
            "cudaFree under a kernel of 200 ms",
            [Command(label, lab.program("busy_free", rounds), preload) for label, preload in both],
            busy,
            16,
            True,
        ),
        Check(
            "speed:record",
            "The price of a context event",
            [Command("plain", lab.program("record_cost"))],
            recorded,
            5,
            True,
        ),
        Check(
            "speed:true",
            "Starting a program that uses no CUDA",
            [Command("both", lab.job("spawn_time.py", LIBRARY, count))],
            started,
            5,
            True,
        ),
    ], [
        Check(
            "speed:bert_large",
            "The training step, in turns",
            [Command(label, job, preload) for label, preload in order],
            step_time,
            20 * len(order),
            True,
        ),
    ]
