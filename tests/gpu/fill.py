"""Checks that no block ever has two owners."""

from check import Check, Outcome, fail, verdict
from lab import LIBRARY, Command


def nothing_wrong(runs):
    shown, good = [], True
    for label, run in runs.items():
        result = run.result
        good = good and result["wrong"] == 0 and result["out_of_memory"] == 0
        refused = f", {result['out_of_memory']} out of memory" if result["out_of_memory"] else ""
        shown.append(f"{label} {result['blocks']} blocks, {result['gib']:.0f} GiB, {result['wrong']} wrong{refused}")
    return verdict(good, "; ".join(shown))


def sanitized(runs):
    run = runs["memcheck"]
    text = run.out + run.err
    if "Device not supported" in text or run.code == 127:
        return Outcome("skip", "compute-sanitizer does not run here: " + text.strip().splitlines()[-1][:120])
    if run.trouble or not run.result:
        return fail(run.trouble or "no result")
    summary = next((line for line in text.splitlines() if "ERROR SUMMARY" in line), "no summary")
    return verdict(
        run.result["wrong"] == 0 and "SUMMARY: 0 errors" in summary,
        f"{run.result['blocks']} blocks, {run.result['wrong']} wrong; {summary}",
    )


def own(result):
    """Whether a run of engine_fill ended as it should: nothing lives or is kept, and every kind of use has happened."""
    happened = all(result[what] > 0 for what in ("blocks", "handovers", "uses"))
    return happened and result["wrong"] == 0 and result["live_at_last"] == 0 and result["kept"] == 0


def shown(result):
    return (
        f"{result['blocks']} blocks, {result['gib']:.0f} GiB, {result['uses']} uses elsewhere, {result['pages_moved']} "
        f"pages moved, {result['peak_held_mib']:.0f} MiB held for {result['peak_live_mib']:.0f}, {result['wrong']} wrong"
    )


def engine_is_sound(runs):
    good = all(own(run.result) and run.result["out_of_memory"] == 0 for run in runs.values())
    return verdict(good, "; ".join(f"{label} {shown(run.result)}" for label, run in runs.items()))


def moved_soundly(runs):
    """Hardly moved is not tested: in the simulated driver a page moves for every 7 blocks."""
    result = runs["moves"].result
    enough = result["pages_moved"] >= max(1000, result["blocks"] // 50)
    within = result["peak_held_mib"] <= result["limit_mib"] and result["out_of_memory"] * 4 < result["blocks"]
    text = f"{shown(result)}, {result['moved_gib']:.0f} GiB moved, {result['out_of_memory']} out of memory"
    return verdict(enough and within and own(result), text if enough else f"too few moves: {text}")


def blind_is_seen(runs):
    result = runs["blind"].result
    return verdict(result["wrong"] > 0, f"{result['uses']} uses, {result['wrong']} wrong elements seen")


def engine_sanitized(runs):
    """Both modes under memcheck: what lies in a hole of the addresses would be an error there."""
    outcomes = [sanitized({"memcheck": run}) for run in runs.values()]
    worst = next((outcome for outcome in outcomes if outcome.status != "ok"), None)
    if worst:
        return worst
    good = all(own(run.result) for run in runs.values()) and runs["moves"].result["pages_moved"] > 0
    figures = (f"{label} {outcome.figures}" for label, outcome in zip(runs, outcomes, strict=True))
    return verdict(good, f"{'; '.join(figures)}; {runs['moves'].result['pages_moved']} pages moved")


def engine_checks(lab, sanitizer):
    seconds, short = (10, 5) if lab.quick else (120, 10)

    def program(seconds, *words):
        return lab.program("engine_fill", LIBRARY, seconds, *words)

    return [
        Check(
            "fill:engine",
            "16 threads with a stream each, blocks of the C API used on other streams: any other owner's value?",
            [Command("opened", program(seconds, "plain"), timeout=seconds + 60)],
            engine_is_sound,
            seconds=seconds + 15,
        ),
        Check(
            "fill:engine:moves",
            "The same under a limit just above what lives: does memory that moves stay its owner's?",
            [Command("moves", program(seconds, "moves"), timeout=seconds + 60)],
            moved_soundly,
            seconds=seconds + 15,
        ),
        Check(
            "fill:engine:preload",
            "The same blocks beside the hooks",
            [Command("preload", program(short, "plain"), True, timeout=short + 60)],
            engine_is_sound,
            seconds=short + 15,
        ),
        Check(
            "fill:engine:blind",
            "Would the check see a block that changes hands too early? Uses are not announced here",
            [Command("blind", program(short, "blind"), timeout=short + 60)],
            blind_is_seen,
            seconds=short + 15,
        ),
        Check(
            "fill:engine:memcheck",
            "Both under compute-sanitizer",
            [
                Command("plain", sanitizer + program(short, "plain", 4), timeout=120),
                Command("moves", sanitizer + program(short, "moves", 4), timeout=120),
            ],
            engine_sanitized,
            seconds=60,
            tolerant=True,
        ),
    ]


def checks(lab):
    seconds = 10 if lab.quick else 60
    sanitizer = [
        "/bin/sh",
        "-c",
        'exec compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$@"',
        "memcheck",
    ]
    return [
        *engine_checks(lab, sanitizer),
        Check(
            "fill",
            "8 threads x 8 streams: does any kernel ever see another owner's value?",
            [
                Command("plain", lab.program("fill_check", 3), timeout=60),
                Command("preload", lab.program("fill_check", seconds), True, timeout=120),
            ],
            nothing_wrong,
            seconds=seconds + 12,
        ),
        Check(
            "fill:memcheck",
            "The same under compute-sanitizer",
            [Command("memcheck", sanitizer + lab.program("fill_check", 10, 4, 4), True, timeout=100)],
            sanitized,
            seconds=40,
            tolerant=True,
        ),
    ]
