"""Checks of time. They run alone on the card."""

import random
import re
import statistics

import truth
from check import Check, fact, fail, verdict
from lab import LIBRARY, Command
from same import TORCH

LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
# By kind of call in hooks.cu: the hooks that do the same. Launches have the price of the one with most arguments.
HOOKS = {
    "event_create": ("cuEventCreate",),
    "event_destroy": ("cuEventDestroy_v2",),
    "synchronise": (
        "cuStreamSynchronize",
        "cuStreamSynchronize_ptsz",
        "cuEventSynchronize",
        "cuCtxSynchronize",
        "cuCtxSynchronize_v2",
    ),
    "mem_info": ("cuMemGetInfo_v2",),
    "lookup": ("cuKernelGetFunction", "cuFuncLoad"),
}


def of_kind(runs, kind):
    """What the processes of one kind found."""
    return [run.result for label, run in runs.items() if label.startswith(kind)]


def faster(runs, kind, key):
    return min(result[key] for result in of_kind(runs, kind))


def pairs(runs):
    """The faster of two runs each, in turns."""
    shown, ratios = [], {}
    for size in ("1m", "64m"):
        plain, preload = (faster(runs, kind, f"ns_{size}") for kind in ("plain", "preload"))
        ratios[size] = plain / preload
        best = faster(runs, "preload", f"ns_{size}_fastest")
        shown.append(f"{size} {preload:.0f} ns (best batch {best:.0f}, plain {plain:.0f}, {ratios[size]:.0f} x)")
    return verdict(min(ratios.values()) >= 50, f"{', '.join(shown)}; target 50 x", ratios=ratios)


def busy(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    # A thread that had slept is slow at anything: its first free is held against cudaFree(nullptr) after the same rest.
    good = (
        preload["free_us_median"] < 5
        and preload["running_first_us_median"] < 5
        and preload["first_ever_us"] < 5
        and preload["first_us_median"] - preload["null_us_median"] < 5
        and preload["returned_while_running"] == preload["rounds"]
        and preload["longest_launch_us"] < 10_000
    )
    ours, theirs = (f"{r['longest_launch_us']:.0f} + {r['longest_wait_us']:.0f}" for r in (preload, plain))
    floors = f"cudaGetDevice then {preload['floor_us_median']:.1f}, cudaFree(nullptr) {preload['null_us_median']:.1f}"
    launch, plain_launch = preload["launch_us_median"], plain["launch_us_median"]
    ever, after = (f"{preload[key]:.1f} (plain {plain[key]:.0f})" for key in ("first_ever_us", "next_us_median"))
    return verdict(
        good,
        f"free {preload['free_us_median']:.2f} us (max {preload['free_us_max']:.0f}), target 5; the first under a kernel "
        f"{preload['running_first_us_median']:.2f} (max {preload['running_first_us_max']:.1f}); after a rest "
        f"{preload['first_us_median']:.1f} (max {preload['first_us_max']:.0f}, plain "
        f"{plain['first_us_median'] / 1000:.0f} ms; {floors}), past the runtime "
        f"{preload['driver_first_us_median']:.1f}; the very first {ever}; "
        f"a launch {launch:.2f} (plain {plain_launch:.2f}); "
        f"neighbour's longest launch + wait {ours} us (plain {theirs}); the next malloc {after}",
    )


def recorded(runs):
    cost = runs["plain"].result
    if "missing" in cost:
        return fact(f"this driver has no {cost['missing']}")
    states = {
        "idle": "idle",
        "busy": "under a kernel",
        "busy_rested": "after a rest of 2 ms",
        "busy_neighbour": "while another thread launches",
        "busy_rested_neighbour": "both",
    }
    shown = ", ".join(f"{said} {cost[f'{k}_us']:.2f} (max {cost[f'{k}_us_max']:.0f})" for k, said in states.items())
    return fact(
        f"cuCtxRecordEvent in us: {shown}; {cost['done_at_once']} of 1000 done at once when idle; "
        f"the driver's part of a malloc and free, idle, {cost['pair_us']:.2f}",
        **cost,
    )


def started(runs):
    times, size = runs["both"].result, LIBRARY.stat().st_size
    more = times["preload_ms"] - times["plain_ms"]
    good = more <= 1 and size <= 4 << 20
    return verdict(
        good,
        f"true {times['plain_ms']:.2f} ms, under the preload {more:+.2f} ms (target 1); "
        f"library {size / 2**20:.2f} MiB (target 4)",
    )


def uncached(runs):
    """Not judged: the target is of the steps with torch's cache."""
    plain, preload = (runs[label].result["steps_ms"] for label in ("plain", "preload"))
    shown = ", ".join(
        f"{label} {statistics.median(steps):.1f} ms (fastest {min(steps):.1f})"
        for label, steps in (("plain", plain), ("preload", preload))
    )
    faster = statistics.median(a / b for a, b in zip(plain, preload, strict=True))
    reserved, live = truth.peaks(runs["preload"].reports[0])
    shown += f"; {faster:.2f} x; peak reserved {reserved >> 20} MiB, {reserved / live:.2f} x the peak live"
    return fact(f"a step: {shown}", plain_ms=plain, preload_ms=preload)


def step_time(runs):
    """Every process did the same steps, several times each, in turns. On a machine where others work as well the fastest
    of many repetitions is what a step costs, and the rest is what others cost: so the fastest of either kind are
    compared, step by step. What another draw of steps and processes might have said is drawn from these; the target must
    lie outside of that."""
    result = runs["turns"].result
    rounds, turns = result["rounds"], result["turns"]
    kinds = {kind: [name for name in rounds[0] if name.startswith(kind)] for kind in ("native", "preload")}
    steps = [rounds[begin : begin + turns] for begin in range(0, len(rounds), turns)]
    best = [{name: min(times[name] for times in step) for name in rounds[0]} for step in steps]

    def ratio(chosen, ours, theirs):
        return statistics.median(
            min(step[name] for name in ours) / min(step[name] for name in theirs) for step in chosen
        )

    found, draw = ratio(best, kinds["preload"], kinds["native"]), random.Random(0)
    drawn = sorted(
        ratio(*(draw.choices(names, k=len(names)) for names in (best, kinds["preload"], kinds["native"])))
        for _ in range(2000)
    )
    low, high = drawn[50], drawn[-51]
    native, preload = (
        statistics.median(times[name] for times in rounds for name in names) for names in kinds.values()
    )
    shown = (
        f"fastest of each step: ratio {found:.4f} (target 1.005; 95 % of draws {low:.4f} to {high:.4f}); median step "
        f"native {native:.2f} ms, preload {preload:.2f} ({preload / native:.4f}); {len(steps)} steps, {turns} turns of "
        f"{len(rounds[0])} processes"
    )
    if low <= 1.005 < high:
        return fact(f"inconclusive: {shown}", rounds=rounds)
    return verdict(found <= 1.005, shown, rounds=rounds)


def hooks(runs):
    """Bounds what the library adds to a step, which the times of steps can't: the calls of a step, times what the hook
    adds to one call of its kind. Calls that are not hooked (copies, fills, records and queries of events) cost what they
    cost without the library and are left out. So are hooked ones without a price, which are named: calls for memory,
    which speed:pairs is about, and what comes once for each kernel. Launches are counted by torch's profiler, which does
    not see the driver's other calls; those are counted by the library's reports.

    A hook adds the larger of two differences: of the fastest batch under the preload and without it, and under the
    preload of the fastest batch through the hook and past it. For real launches only the second: processes differ in
    them by more than the hook adds. All of it is held against the fastest step, as if nothing of it were hidden behind
    the device's work. The batches find the library's memory in the processor's caches, which a step may not."""
    missing = {run.result["missing"] for run in runs.values() if "missing" in run.result}
    if missing:
        return fact(f"this driver has no {', '.join(sorted(missing))}")
    for kind, expected in (("plain", 0), ("preload", len(HOOKS) + 1)):
        for result in of_kind(runs, kind):
            if result["hooked"] != expected:
                return fail(f"{kind}: {result['hooked']} of {len(HOOKS) + 1} functions are hooked, not {expected}")
    step, hooked = runs["step"].result, dict(runs["hooked"].result["calls"])
    launches = sum(count for name, count in step["calls"].items() if LAUNCH.match(name))
    if not launches:
        return fail("the profiler saw no launch", calls=step["calls"])

    def across(kind):
        return faster(runs, "preload", f"{kind}_ns") - faster(runs, "plain", f"{kind}_ns")

    def within(kind):
        return max(result[f"{kind}_ns"] - result[f"{kind}_past_ns"] for result in of_kind(runs, "preload"))

    added = {kind: max(0, across(kind), within(kind)) for kind in HOOKS}
    launch = max(0, across("null_launch"), within("null_launch"), within("launch"))
    counts = {kind: sum(hooked.pop(name, 0) for name in names) for kind, names in HOOKS.items()}
    total = (launches * launch + sum(counts[kind] * added[kind] for kind in HOOKS)) / 1000
    fastest = min(step["steps_ms"])
    share = total / (fastest * 1000)
    others = ", ".join(f"{counts[kind]:g} {kind} of {added[kind]:.0f} ns" for kind in HOOKS if counts[kind])
    rest = ", ".join(f"{name} {count:g}" for name, count in hooked.items())
    return verdict(
        share <= 0.005,
        f"{launches:g} launches a step, {launch:.1f} ns added to each; with {others or 'nothing else'} {total:.1f} us "
        f"of {fastest:.1f} ms: {share:.3%} (target 0.5); a null launch past the hook {within('null_launch'):+.1f} ns, "
        f"between processes {across('null_launch'):+.1f}, a real one {within('launch'):+.1f} and "
        f"{across('launch'):+.1f}; without a price, of launches the first of a kernel: {rest or 'none'}",
        launches=launches,
        launch_ns=launch,
        added_ns=added,
        counts=counts,
        unpriced=hooked,
        total_us=total,
        share=share,
    )


def checks(lab):
    both = ("plain", False), ("preload", True)
    rounds, count = (5, 100) if lab.quick else (20, 500)
    steps, turns = (6, 6) if lab.quick else (10, 15)
    turns = lab.job("step_turns.py", LIBRARY, "bert_large", "--steps", steps, "--turns", turns)
    step_calls = lab.job("step_calls.py", "bert_large", "--steps", 4 if lab.quick else 8)
    uncached_job = lab.job("step_times.py", "resnet50", "--steps", 6 if lab.quick else 11)
    return [
        Check(
            "speed:pairs",
            "cudaMalloc + cudaFree, idle",
            [
                Command(label, lab.program("pairs"), label.startswith("preload"))
                for label in ("plain0", "preload0", "preload1", "plain1")
            ],
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
            [Command("turns", turns, timeout=290)],
            step_time,
            80 if lab.quick else 230,
            True,
        ),
        Check(
            "speed:hooks",
            "What the hooks add to a BERT-large step",
            [
                Command(label, lab.program("hooks", 1 if lab.quick else 3), label.startswith("preload"))
                for label in ("plain0", "preload0", "preload1", "plain1")
            ]
            + [
                Command("step", step_calls),
                Command("hooked", [*step_calls, "--hooked"], True, {"CENOTE_CONF": "report_every:100ms"}),
            ],
            hooks,
            45 if lab.quick else 65,
            True,
        ),
        Check(
            "speed:resnet50:uncached",
            "The training step without torch's cache: every tensor is a cudaMalloc and a cudaFree",
            [Command(label, uncached_job, preload, TORCH["uncached"]) for label, preload in both],
            uncached,
            35,
            True,
        ),
    ]
