"""Checks that a program computes the same with the library as without it."""

import truth
from check import Check, fail, ok, verdict
from lab import Command

TORCH = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "uncached": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "adapter": {"CENOTE_CONF": "torch:adapter"},
}
STEPS = {"resnet50": 8, "bert_large": 6, "streams_prefetch": 8}
ADAPTED = ("resnet50", "bert_large", "gpt2_medium", "streams_prefetch")


def relative(first, second):
    """The largest relative difference of two lists of losses."""
    pairs = [(float(a), float(b)) for a, b in zip(first, second, strict=False)]
    return max((abs(a - b) / max(abs(a), 1e-9) for a, b in pairs), default=0.0)


def same_losses(runs):
    plain, preload = runs["plain"].result["losses"], runs["preload"].result["losses"]
    if not plain or len(plain) != len(preload):
        return fail(f"{len(plain)} and {len(preload)} losses")
    if "CENOTE_CONF" in runs["preload"].command.env and runs["preload"].result["backend"] != "cenote":
        return fail(f"the allocator is {runs['preload'].result['backend']}")
    if plain == preload:
        agree, shown = reserved(runs["preload"])
        return verdict(agree, f"{len(plain)} losses equal, last {plain[-1]}{shown}")
    if "plain_again" not in runs:
        return None
    again = runs["plain_again"].result["losses"]
    own, other = relative(plain, again), relative(plain, preload)
    if plain == again:
        return fail(f"losses differ by {other:.2e}, two plain runs do not", plain=plain, preload=preload)
    return verdict(
        other <= max(4 * own, 1e-4),
        f"nondeterministic: plain differs from plain by {own:.2e}, from preload by {other:.2e}",
    )


def reserved(run):
    """With torch's own cache, what the report gives torch is what torch says it has reserved, to the byte."""
    if run.command.env:
        return True, ""
    if not run.reports:
        return False, "; no report"
    torch_says, report_says = run.result["memory"]["reserved_bytes.all.current"], truth.owned(run.reports[0], "torch")
    return torch_says == report_says, f"; torch has {torch_says} B, in the report {report_says} B"


def torch_job(lab, job, conf):
    steps = 50 if conf == "adapter" else STEPS[job]
    steps = 4 if lab.quick or conf == "uncached" else steps

    def command(label, preload):
        return Command(label, lab.job("losses.py", job, "--steps", steps), preload, TORCH[conf], timeout=150)

    return Check(
        f"same:{job}:{conf}",
        "Are the losses of a PyTorch job equal to the last digit?",
        [command("plain", False), command("preload", True)],
        same_losses,
        seconds=60,
        again=[command("plain_again", False)],
    )


def same_result(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    if not plain or plain.get("result") != preload.get("result"):
        return fail("results differ", plain=plain, preload=preload)
    return ok("results equal")


def twice(lab, name, question, argv, judge, seconds, env=None, timeout=120):
    commands = [Command(label, argv, label == "preload", env or {}, timeout) for label in ("plain", "preload")]
    return Check(name, question, commands, judge, seconds)


def graph(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    good = plain["losses"] == preload["losses"] and preload["neighbour_wrong"] == 0 and preload["graphs"] == 5
    return verdict(
        good, f"{preload['graphs']} graphs, {len(preload['losses'])} replayed losses, last {preload['losses'][-1]}"
    )


def captures(runs):
    """In no mode worse than the driver: where its capture stays valid, so must ours."""
    plain, preload = runs["plain"].result, runs["preload"].result
    worse = [mode for mode in plain if plain[mode]["valid"] and not preload[mode]["valid"]]
    wrong = [mode for mode in preload if preload[mode]["wrong"]]
    errors = [m for m in plain if preload[m]["neighbour_errors"] and not plain[m]["neighbour_errors"]]
    shown = ", ".join(
        f"{m} {'valid' if r['valid'] else 'broken'} (plain {'valid' if plain[m]['valid'] else 'broken'})"
        for m, r in preload.items()
    )
    return verdict(
        not (worse or wrong or errors), shown + (f"; new errors of the neighbour in {errors}" if errors else "")
    )


def loop(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    pool = truth.order(runs["preload"].reports[0])
    return verdict(
        preload["wrong"] == 0 and plain["wrong"] == 0,
        f"{preload['rounds']} x 64 MiB: {preload['total_s']:.2f} s (plain {plain['total_s']:.2f}), "
        f"{preload['wrong']} wrong, peak reserved {pool['peak_reserved_bytes'] >> 20} MiB, {pool['waits']} waits",
        pool=pool,
    )


def leak(runs):
    site = truth.top_site(runs["preload"].reports[0])
    sizes = {entry["bytes"]: entry["blocks"] for entry in site["live_sizes"]} if site else {}
    return verdict(site and site["live_blocks"] == 100 and sizes == {4_000_000: 100}, f"top site: {site}", site=site)


def checks(lab):
    rounds = 1000 if lab.quick else 10000
    plan = [("resnet50", "native"), ("bert_large", "native"), ("streams_prefetch", "native"), ("resnet50", "uncached")]
    plan += [(job, conf) for conf in ("expandable", "async") for job in STEPS]
    plan += [(job, "adapter") for job in ADAPTED]
    if lab.quick:
        plan = [("resnet50", conf) for conf in TORCH]
    found = [torch_job(lab, job, conf) for job, conf in plan]
    found += [
        twice(
            lab,
            "graph:torch",
            "Is a captured training step right while a second thread allocates?",
            lab.job("graph_step.py"),
            graph,
            40,
        ),
        twice(
            lab,
            "graph:capture",
            "Does a capture survive in every mode?",
            lab.program("capture"),
            captures,
            15,
            timeout=60,
        ),
        twice(
            lab, "same:cupy", "Does CuPy without its pool compute the same?", lab.job("cupy_sum.py"), same_result, 40
        ),
        twice(
            lab,
            "same:jax",
            "Does JAX compute the same?",
            lab.job("jax_sum.py"),
            same_result,
            45,
            {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        ),
        twice(
            lab,
            "same:jax:platform",
            "And with cudaMalloc for each array?",
            lab.job("jax_sum.py"),
            same_result,
            45,
            {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
        ),
        twice(
            lab,
            "loop:static",
            "10,000 blocks of 64 MiB without synchronising",
            lab.program("loop", rounds),
            loop,
            20,
            timeout=60,
        ),
        twice(
            lab,
            "loop:shared",
            "The same with the shared runtime",
            lab.program("loop_shared", rounds),
            loop,
            20,
            timeout=60,
        ),
        Check(
            "leak:graph_leak",
            "Does the top site hold the 100 blocks that the job keeps?",
            [Command("preload", lab.job("losses.py", "graph_leak", "--steps", 100, "--hold"), True, TORCH["uncached"])],
            leak,
            seconds=25,
        ),
    ]
    return found
