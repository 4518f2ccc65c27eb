#!/usr/bin/env python3
"""Which driver calls a training step makes, and how long it takes. Every step is made twice, and the second one counts:
the first one of a new length loads kernels and takes memory.

Without --hooked it takes the time of each step, then lets torch's profiler count the calls of the last. The profiler
sees all launches, but of the driver's other calls none, and of the runtime's not those that make or end an event. With
--hooked, which needs the library and `report_every`, the library's own reports say what else of a step went through a
hook; of launches they count the first of each kernel alone."""

import argparse
import collections
import json
import os
import random
import re
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

import jobs

REPORT = os.environ.get("CENOTE_OUTPUT", "").replace("%p", str(os.getpid()))
CALL = re.compile(r"cu(da)?[A-Z]\w*")


def timed(step, args):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step(*args)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000


def profiled(step, args):
    """Calls by name, the profiler's own synchronises among them."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        step(*args)
        torch.cuda.synchronize()
    return collections.Counter(event.name for event in profiler.events() if CALL.fullmatch(event.name))


def hooked_so_far():
    """The hooked calls by name. A report counts them some time before it is dated: only the second that is dated from
    now on is sure to have all."""
    since, end, dates = time.time_ns(), time.time() + 10, set()
    while time.time() < end:
        time.sleep(0.02)
        try:
            with open(REPORT) as file:
                report = json.load(file)
        except (OSError, ValueError):
            continue
        if report["written_unix_ns"] >= since:
            dates.add(report["written_unix_ns"])
        if len(dates) == 2:
            return collections.Counter(report["coverage"]["calls"])
    sys.exit(f"no new reports in {REPORT} within 10 s")


def hooked(step, args):
    before = hooked_so_far()
    step(*args)
    return hooked_so_far() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("bert_large", "resnet50"))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--hooked", action="store_true")
    args = parser.parse_args()
    times, calls = [], collections.Counter()

    def watched(step):
        def run(*given):
            loss = step(*given)
            if args.hooked:
                calls.update(hooked(step, given))
                return loss
            times.append(round(timed(step, given), 4))
            if len(times) == args.steps:
                calls.update(profiled(step, given))
            return loss

        return run

    jobs.classify_step, jobs.lm_step = watched(jobs.classify_step), watched(jobs.lm_step)
    torch.manual_seed(0)
    random.seed(0)
    torch.zeros(1, device=jobs.DEV)
    for _ in jobs.JOBS[args.job](steps=args.steps):
        pass
    steps = args.steps if args.hooked else 1
    each = {name: round(count / steps, 3) for name, count in calls.most_common()}
    print(json.dumps({"job": args.job, "steps_ms": times, "calls": each}))


if __name__ == "__main__":
    main()
