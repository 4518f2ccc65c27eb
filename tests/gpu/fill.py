"""Checks that no block ever has two owners."""

from check import Check, Outcome, fail, verdict
from lab import Command


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


def checks(lab):
    seconds = 10 if lab.quick else 60
    sanitizer = [
        "/bin/sh",
        "-c",
        'exec compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$@"',
        "memcheck",
    ]
    return [
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
