#!/usr/bin/env python3
"""Runs one of the workloads as jobs.py does and prints how long each step took but the first."""

import argparse
import json
import random
import time

import torch

import jobs

steps = []


def timed(step):
    def run(*args):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step(*args)
        torch.cuda.synchronize()
        steps.append(round((time.perf_counter() - begin) * 1000, 4))
        return loss

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("bert_large", "resnet50"))
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    jobs.classify_step, jobs.lm_step = timed(jobs.classify_step), timed(jobs.lm_step)
    torch.manual_seed(0)
    random.seed(0)
    torch.zeros(1, device=jobs.DEV)
    for _ in jobs.JOBS[args.job](steps=args.steps):
        pass
    print(json.dumps({"job": args.job, "steps_ms": steps[1:]}))


if __name__ == "__main__":
    main()
