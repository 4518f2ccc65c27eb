"""Facts for the documentation: what raises the used memory beyond what anybody allocated, and which calls a capture
survives. Printed, never judged."""

import truth
from check import Check, fact
from lab import Command

MIB = 1 << 20


def raised(runs):
    stages, shown = {}, []
    for label, run in runs.items():
        stages[label] = {row["stage"]: round(row["raised"] / MIB, 1) for row in run.result["stages"]}
        large = [f"{stage} {size}" for stage, size in stages[label].items() if abs(size) >= 2]
        shown.append(f"{label} (MiB): {', '.join(large)}")
        if run.reports:
            shown.append("report: " + truth.account(run.reports[0]))
            unexplained = [f"{stage} {size}" for stage, size in unknown(run.result["stages"]) if abs(size) >= 1]
            shown.append(f"not known to the report: {', '.join(unexplained) or 'nothing'}")
    return fact("; ".join(shown), stages=stages)


def unknown(stages):
    """What the unaccounted bytes grew by in each stage beyond what the report explains, in MiB."""
    before = 0
    for row in stages:
        if row["report"]:
            rest = row["report"]["unaccounted_bytes"] - sum(row["report"]["unaccounted_known"].values())
            yield row["stage"], round((rest - before) / MIB, 1)
            before = rest


def survived(runs):
    answers = runs["plain"].result
    if "missing" in answers:
        return fact(f"this driver has no {answers['missing']}")
    shown = []
    for mode, said in (("relaxed", "after an exchange to relaxed"), ("own_mode", "without")):
        each = (
            f"{name} {answer['code']}{'' if answer['valid'] else ' BREAKS'}" for name, answer in answers[mode].items()
        )
        shown.append(f"{said}: {', '.join(each)}")
    shown.append("without a context: " + ", ".join(f"{name} {code}" for name, code in answers["no_context"].items()))
    return fact("; ".join(shown), **answers)


def checks(lab):
    job = lab.job("growth.py")
    every = {"CENOTE_CONF": "report_every:100ms"}
    loadings = [("lazy", {"CUDA_MODULE_LOADING": "LAZY"})] + (
        [] if lab.quick else [("eager", {"CUDA_MODULE_LOADING": "EAGER"})]
    )
    relaxed = Check(
        "facts:relaxed",
        "Which calls of another thread does a global capture survive?",
        [Command("plain", lab.program("relaxed"), timeout=40)],
        survived,
        5,
        True,
    )
    return [relaxed] + [
        Check(
            f"facts:growth:{name}",
            "What raises the used memory, stage by stage?",
            [Command("plain", job, False, env), Command("preload", job, True, env | every)],
            raised,
            30,
            True,
        )
        for name, env in loadings
    ]
