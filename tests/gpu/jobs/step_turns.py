#!/usr/bin/env python3
"""Several processes of one workload, half of them with the library, that take turns at every step: what slows the
machine down for a while slows both halves. All have the same processors, and one of them runs at a time.

Use: step_turns.py LIBRARY JOB [--processes N] [--steps N] [--turns N] [--repeat N]"""

import argparse
import json
import os
import random
import subprocess
import sys
import time

CPUS = 4


def child(job, steps, turns, repeat):
    """Waits for a word before each turn and answers with the time of the fastest repetition, in milliseconds."""
    import torch

    import jobs

    def timed(step):
        def run(*args):
            for _ in range(turns):
                if not sys.stdin.readline():
                    sys.exit(1)
                os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
                times = []
                for _ in range(repeat):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    loss = step(*args)
                    torch.cuda.synchronize()
                    times.append((time.perf_counter() - begin) * 1000)
                print(round(min(times), 4), flush=True)
            return loss

        return run

    jobs.classify_step, jobs.lm_step = timed(jobs.classify_step), timed(jobs.lm_step)
    torch.manual_seed(0)
    random.seed(0)
    torch.zeros(1, device=jobs.DEV)
    for _ in jobs.JOBS[job](steps=steps):
        pass


def start(name, args):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if name.startswith("preload"):
        env["LD_PRELOAD"] = args.library
    numbers = (f"--{key}={getattr(args, key)}" for key in ("steps", "turns", "repeat"))
    argv = [sys.executable, __file__, args.library, args.job, "--child", *numbers]
    return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def turn(name, process):
    process.stdin.write("go\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"{name} ended with {process.wait()}")
    return float(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("job", choices=("bert_large", "resnet50"))
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.job, args.steps, args.turns, args.repeat)
        return
    names = [f"{kind}{index}" for index in range(args.processes // 2) for kind in ("native", "preload")]
    processes = {name: start(name, args) for name in names}
    # The first step of a process loads its kernels.
    rounds = []
    for index in range(args.steps * args.turns):
        # Who begins moves on, and every second round goes backwards.
        order = names[index % len(names) :] + names[: index % len(names)]
        times = {name: turn(name, processes[name]) for name in (order[::-1] if index % 2 else order)}
        if index >= args.turns:
            rounds.append(times)
    for process in processes.values():
        process.stdin.close()
    codes = [process.wait(60) for process in processes.values()]
    print(json.dumps({"job": args.job, "turns": args.turns, "rounds": rounds, "exit": codes}))
    if any(codes):
        sys.exit(f"exit statuses {codes}")


if __name__ == "__main__":
    main()
