#!/usr/bin/env python3
"""Starts a program N times with and without the library, in turns. Use: spawn_time.py LIBRARY N [PROGRAM]"""

import json
import os
import statistics
import sys
import time


def start(program, env):
    begin = time.perf_counter()
    child = os.posix_spawn(program, [program], env)
    _, status = os.waitpid(child, 0)
    took = (time.perf_counter() - begin) * 1000
    assert status == 0, f"{program} ended with {status}"
    return took


def main():
    library, count = sys.argv[1], int(sys.argv[2])
    program = sys.argv[3] if len(sys.argv) > 3 else "/bin/true"
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    preload = plain | {"LD_PRELOAD": library}
    times = {"plain": [], "preload": []}
    for _ in range(count):
        times["plain"].append(start(program, plain))
        times["preload"].append(start(program, preload))
    result = {f"{name}_ms": round(statistics.median(each), 3) for name, each in times.items()}
    result |= {f"{name}_mean_ms": round(statistics.fmean(each), 3) for name, each in times.items()}
    print(json.dumps(result | {"count": count}))


if __name__ == "__main__":
    main()
