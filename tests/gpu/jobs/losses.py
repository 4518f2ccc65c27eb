#!/usr/bin/env python3
"""Runs one of the workloads deterministically: every loss to the last digit, then what torch says about memory."""

import argparse
import ctypes
import itertools
import json
import os
import random
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import jobs

warnings.filterwarnings("ignore", message=".*[Dd]eterminis")
losses = []


def watched(step):
    """The step of the workload, with its loss kept."""

    def run(*args):
        losses.append(step(*args))
        return losses[-1]

    return run


def memory():
    try:
        stats = torch.cuda.memory_stats()
    except RuntimeError as error:
        stats = {"error": str(error).splitlines()[0]}
    keys = (
        "reserved_bytes.all.current",
        "reserved_bytes.all.peak",
        "allocated_bytes.all.current",
        "num_alloc_retries",
        "num_ooms",
        "error",
    )
    free, total = torch.cuda.mem_get_info()
    return {key: stats[key] for key in keys if key in stats} | {"mem_get_info": [free, total]}


def run(args, strict):
    """Runs the steps and returns the job. Strictly: an operation without a deterministic way is an error; PyTorch's
    flash attention takes its own only then."""
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    torch.manual_seed(0)
    random.seed(0)
    losses.clear()
    job = jobs.JOBS[args.job](steps=args.steps + 1 if args.hold else args.steps)
    for _ in itertools.islice(job, args.steps):
        pass
    return job


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=sorted(jobs.JOBS))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument(
        "--hold", action="store_true", help="stop before the job ends and keep what it holds until exit"
    )
    args = parser.parse_args()
    jobs.classify_step, jobs.lm_step = watched(jobs.classify_step), watched(jobs.lm_step)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    for strict in (True, False):
        try:
            job = run(args, strict)
            break
        except RuntimeError as error:
            if not strict or "deterministic" not in str(error):
                raise
    if args.hold:
        # Python's own clean-up would free the blocks before the report is written.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(job))
    torch.cuda.synchronize()
    print(
        json.dumps(
            {
                "job": args.job,
                "strict": strict,
                "losses": [repr(loss) for loss in losses],
                "backend": torch.cuda.get_allocator_backend(),
                "memory": memory(),
            }
        )
    )


if __name__ == "__main__":
    main()
