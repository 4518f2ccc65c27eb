"""Checks of a process' life: how it ends, resets, what others see of its memory, and the command line."""

import truth
from check import Check, fail, ok, verdict
from lab import CENOTE, LIBRARY, Command

MIB = 1 << 20
# How a program ends: its exit status, and the reason in its report.
WAYS = {
    "return": (0, "exit"),
    "static": (13, "exit"),
    "throw": (-6, "abort"),
    "thread": (7, "exit"),
    "exit": (9, "exit"),
    "fast": (11, "immediate_exit"),
}


def ending(way):
    def judge(runs):
        plain, preload = runs["plain"], runs["preload"]
        status, reason = WAYS[way]
        if plain.code != preload.code:
            return fail(f"exit status {plain.code} without and {preload.code} with the library")
        if plain.code != status:
            return fail(f"exit status {plain.code}, expected {status}")
        if len(preload.reports) != 1:
            return fail(f"exit status {plain.code} as without it, but {len(preload.reports)} reports")
        wrong, said = truth.problems(preload.reports[0]), truth.reason(preload.reports[0])
        return verdict(
            not wrong and said == reason,
            f"exit status {plain.code} both, one report ({said}, expected {reason}) {'; '.join(wrong)}".strip(),
        )

    return judge


def no_wrong(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    good = preload["wrong"] == 0 and preload.get("stale_frees", 0) <= plain.get("stale_frees", 0)
    return verdict(good, f"{preload} (plain {plain})")


def same_card(runs):
    """cudaMemGetInfo minus NVML must be what it is without the library, and freed bytes must count as free."""
    plain, preload = runs["plain"].result, runs["preload"].result
    if not plain["nvml"]:
        return fail("NVML could not be opened")

    def gap(result, stage):
        return result[stage]["cuda_used"] - result[stage]["nvml_used_v2"]

    gaps = {stage: (gap(preload, stage) - gap(plain, stage)) / MIB for stage in ("context", "live_1g", "live_4g")}
    hidden = {
        stage: (preload[stage]["cuda_used"] - preload["context"]["cuda_used"]) / MIB
        for stage in ("freed_1g", "freed_4g")
    }
    cached = (preload["freed_4g"]["nvml_used_v2"] - preload["context"]["nvml_used_v2"]) / MIB
    totals = plain["context"]["cuda_total"] == preload["context"]["cuda_total"]
    good = totals and all(abs(value) <= 2 for value in gaps.values()) and all(value <= 4 for value in hidden.values())
    contexts = f"context {plain['context_bytes'] / MIB:.1f} MiB, with the library {preload['context_bytes'] / MIB:.1f}"
    gaps = ", ".join(f"{stage} {value:.1f}" for stage, value in gaps.items())
    more = " and ".join(f"{value:.1f}" for value in hidden.values())
    return verdict(
        good,
        f"gap to NVML {gap(plain, 'live_1g') / MIB:.1f} MiB, other with us by {gaps}; after free {more} MiB more "
        f"in use (NVML: {cached:.0f} cached); {contexts}",
    )


def given_back(runs):
    shown, good = [], True
    for label, run in runs.items():
        result = run.result
        seconds = result["seconds_until_back"]
        took = "never" if seconds is None else f"{seconds:.2f} s"
        shown.append(f"{label} {took} (empty_cache {result['empty_cache_s'] * 1000:.0f} ms)")
        if label.startswith("preload"):
            good = good and seconds is not None and seconds < 1
    return verdict(good, ", ".join(shown) + "; target 1 s")


def command_line(runs):
    ran, summary = runs["run"], runs["summary"]
    if ran.code != 9:
        return fail(f"cenote run ended with {ran.code}, the job with 9")
    if summary.code != 0 or not summary.out.strip():
        return fail(f"cenote summary ended with {summary.code}: {summary.err.strip()[-160:]}")
    doctor = (runs["doctor"].out or runs["doctor"].err).strip().splitlines() or [""]
    lines = len(summary.out.splitlines())
    return ok(f"run passes 9 on, summary has {lines} lines, doctor {runs['doctor'].code}: {doctor[-1][:90]}")


def native_truth(runs):
    """A torch job alone on the card: its bytes to the last one, and nothing large unexplained."""
    shown, good = [], True
    for label, run in runs.items():
        torch_says, report = run.result["memory"]["reserved_bytes.all.current"], run.reports[0]
        report_says, (unaccounted, unexplained) = truth.owned(report, "torch"), truth.unaccounted(report)
        good = good and torch_says == report_says and unexplained < 16 * MIB
        rest = f"unaccounted {unaccounted / MIB:.1f} MiB, unexplained {unexplained / MIB:.1f}"
        shown.append(f"{label}: torch {torch_says} B, report {report_says} B, {rest}")
    return verdict(
        good, "; ".join(shown), accounts={label: truth.account(run.reports[0]) for label, run in runs.items()}
    )


def checks(lab):
    def two(*argv):
        return [Command("plain", list(argv), timeout=40), Command("preload", list(argv), True, timeout=40)]

    def back(label, mode, preload):
        return Command(
            label,
            lab.job("give_back.py", lab.programs / "poll_free", mode),
            env={"POLL_PRELOAD": str(LIBRARY) if preload else ""},
        )

    def losses(job):
        return Command(job, lab.job("losses.py", job, "--steps", 4), True)

    summary = f"exec '{CENOTE}' summary '{lab.reports}'/cli.run-*.json"
    alone = [
        Check(
            "life:mem_info", "Does cudaMemGetInfo agree with NVML?", two(*lab.program("mem_info")), same_card, 10, True
        ),
        Check(
            "truth:torch",
            "Is every byte of torch in the report, and the rest explained?",
            [losses("resnet50"), losses("bert_large")],
            native_truth,
            40,
            True,
        ),
        Check(
            "life:give_back",
            "empty_cache: when does another process see the memory?",
            [
                back("plain idle", "idle", False),
                back("preload idle", "idle", True),
                back("preload training", "training", True),
            ],
            given_back,
            45,
            True,
        ),
    ]
    shared = [
        Check(
            f"exit:{way}",
            "Same exit status and one report?",
            two(*lab.program("exit_order", way)),
            ending(way),
            5,
            tolerant=True,
        )
        for way in WAYS
    ]
    shared += [
        Check("life:reset", "Does memory work after cudaDeviceReset?", two(*lab.program("reset")), no_wrong, 10),
        Check(
            "life:texture",
            "Can a texture be bound to every block of 300 bytes?",
            two(*lab.program("texture")),
            no_wrong,
            6,
        ),
        Check(
            "cli",
            "Does the command line run a job and read its report?",
            [
                Command("run", [str(CENOTE), "run", "--", *lab.program("exit_order", "exit")], expect=(9,), timeout=40),
                Command("summary", ["/bin/sh", "-c", summary], timeout=20),
                Command("doctor", [str(CENOTE), "doctor"], timeout=40),
            ],
            command_line,
            10,
            tolerant=True,
        ),
    ]
    return alone, shared
