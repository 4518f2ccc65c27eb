"""Checks of the adapter for PyTorch: every workload beside PyTorch's own allocator, free and with little memory."""

import statistics

from check import Check, Outcome, fact, fail
from lab import LIBRARY, Command

JOBS = (
    "resnet50",
    "resnet50_multires",
    "bert_large",
    "gpt2_medium",
    "llama_full_varlen",
    "kv_generate",
    "gnn",
    "streams_prefetch",
    "graph_leak",
)
SHARE = 1.01


def median_ratio(ours, theirs):
    """Step by step, since the steps of a job differ; the first ones load kernels."""
    return statistics.median(a / b for a, b in zip(ours[2:], theirs[2:], strict=False)) if len(ours) > 3 else float("nan")


def reserved_ratio(run):
    end = run.get("end", {})
    peak = end.get("allocated_bytes.all.peak", 0)
    return end.get("reserved_bytes.all.peak", 0) / peak if peak else float("nan")


def judge(rows):
    """`rows` has a job's figures by phase."""
    free = rows.get("free", {}).get("found", {})
    troubles = [f"{name}: {run['error']}" for name, run in free.items() if "error" in run]
    if troubles or not {"native0", "native1", "cenote0", "cenote1"} <= free.keys():
        return fail("; ".join(troubles) or "no figures", **rows)
    steps = {name: run["steps"] for name, run in free.items()}
    native, cenote = ([min(pair) for pair in zip(steps[f"{kind}0"], steps[f"{kind}1"], strict=True)] for kind in ("native", "cenote"))
    ratio = median_ratio(cenote, native)
    noise = abs(median_ratio(steps["native1"], steps["native0"]) - 1)
    first = sum(cenote[:10]) / sum(native[:10])
    reserved, theirs = reserved_ratio(free["cenote0"]), reserved_ratio(free["native0"])
    peak = free["cenote0"]["end"]["allocated_bytes.all.peak"]
    tight = reserved <= max(1.02, 1 + (32 << 20) / peak)
    good = free["cenote0"]["end"]["backend"] == "cenote" and tight and ratio <= 1 + max(noise, 0.01) and first <= 1 + max(noise, 0.02)
    shown = (
        f"step {ratio:.3f} of native (native of itself {1 + noise:.3f}), first ten {first:.3f}; median {statistics.median(native) * 1e3:.1f} ms; "
        f"reserved/allocated {reserved:.4f} (native {theirs:.3f}), peak {peak / 1e9:.2f} GB"
    )
    if "limited" in rows:
        limited = rows["limited"]["found"]
        ours = limited["cenote"]
        slower = median_ratio(ours["steps"], limited["free"]["steps"])
        fits = "error" not in ours
        good = good and fits and slower <= 1.03
        shown += f"; with {SHARE} of its peak: {f'{slower:.3f} of free' if fits else ours['error'][:60]}"
        for other in ("native", "async"):
            run = limited.get(other, {})
            slower = median_ratio(run.get("steps", []), native)
            state = f"fails at step {len(run.get('steps', []))}" if "error" in run else f"{slower:.3f}"
            shown += f", {other} {state}"
    return Outcome("ok" if good else "FAIL", shown, rows)


def same_answers(runs):
    plain, ours = runs["plain"].result, runs["preload"].result
    differ = [f"{name}: {ours['answers'].get(name)}"[:150] for name, answer in plain["answers"].items() if ours["answers"].get(name) != answer]
    shown = f"{len(plain['answers'])} calls, {len(differ)} differ; torch.empty {ours['empty_ns']:.0f} ns, native {plain['empty_ns']:.0f}"
    good = ours["backend"] == "cenote" and not differ and ours["empty_ns"] <= 1.05 * plain["empty_ns"]
    return Outcome("ok" if good else "FAIL", "; ".join([shown, *differ]), {"plain": plain, "ours": ours})


def api(lab):
    argv, env = lab.job("torch_api.py"), {"CENOTE_CONF": "torch:adapter", "CENOTE_CACHE_DIR": str(lab.work / "cache")}
    commands = [Command("plain", argv, timeout=120), Command("preload", argv, True, env, timeout=120)]
    return Check("torch:api", "Does every call about memory answer as PyTorch's own allocator?", commands, same_answers, 70, True)


def checks(lab):
    """One command for all jobs, since what they import takes longer than some of them; then what came out, job by job."""
    found = {}

    def keep(runs):
        for row in runs["turns"].rows:
            found.setdefault(row["job"], {})[row["phase"]] = row
        return fact(f"{len(found)} of {len(JOBS)} jobs in {runs['turns'].seconds:.0f} s; {runs['turns'].trouble or 'no trouble'}")

    def judged(job):
        return lambda _: judge(found.get(job, {}))

    jobs = [f"{job}:6" if lab.quick else job for job in JOBS]
    argv = lab.job("job_turns.py", LIBRARY, *jobs, "--share", SHARE)
    command = Command("turns", argv, timeout=560, env={"CENOTE_CACHE_DIR": str(lab.work / "cache")})
    run = Check("torch:run", "All workloads with the adapter, in turns", [command], keep, 480, True, tolerant=True)
    return [api(lab), run, *(Check(f"torch:{job}", f"{job} with the adapter", [], judged(job), 0, True) for job in JOBS)]
