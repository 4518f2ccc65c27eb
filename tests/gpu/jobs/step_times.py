#!/usr/bin/env python3
"""Runs one of the workloads as jobs.py does and prints how long each step took."""

import argparse
import json
import random
import time

import torch

import jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=sorted(jobs.JOBS))
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    torch.zeros(1, device=jobs.DEV)
    ends = []
    for _ in jobs.JOBS[args.job](steps=args.steps):
        torch.cuda.synchronize()
        ends.append(time.perf_counter())
    steps = [round((after - before) * 1000, 4) for before, after in zip(ends, ends[1:], strict=False)]
    print(json.dumps({"job": args.job, "steps_ms": steps}))


if __name__ == "__main__":
    main()
