"""Facts for the documentation: what raises the used memory beyond what anybody allocated. Printed, never judged."""

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
    return fact("; ".join(shown), stages=stages)


def checks(lab):
    job = lab.job("growth.py")
    loadings = [("lazy", {"CUDA_MODULE_LOADING": "LAZY"})] + (
        [] if lab.quick else [("eager", {"CUDA_MODULE_LOADING": "EAGER"})]
    )
    return [
        Check(
            f"facts:growth:{name}",
            "What raises the used memory, stage by stage?",
            [Command(label, job, label == "preload", env) for label in ("plain", "preload")],
            raised,
            30,
            True,
        )
        for name, env in loadings
    ]
