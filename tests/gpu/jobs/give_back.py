#!/usr/bin/env python3
"""How long until another process sees the memory again that a torch process gave back with empty_cache().

Use: give_back.py POLLER idle|training, with POLL_PRELOAD naming the library for the torch process, or empty. The poller
runs without the library, and so does this script."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time

GIB = 1 << 30


def torch_process(mode):
    import torch

    blocks = [torch.ones(2 * GIB, dtype=torch.uint8, device="cuda") for _ in range(10)]
    a = torch.randn(2048, 2048, device="cuda")
    (a @ a).sum().item()
    torch.cuda.synchronize()
    print("held", time.monotonic(), flush=True)
    time.sleep(1)
    if mode == "training":
        queue = [a @ a for _ in range(50)]
        del queue
    del blocks
    before = time.monotonic()
    torch.cuda.empty_cache()
    print("given", before, time.monotonic(), flush=True)
    end = time.monotonic() + 5
    while mode == "training" and time.monotonic() < end:
        for _ in range(20):
            b = a @ a
            c = torch.relu(b)
            del b, c
        torch.cuda.synchronize()
    time.sleep(max(0.0, end - time.monotonic()))


def main():
    poller_path, mode = sys.argv[1:3]
    poller = subprocess.Popen([poller_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    samples = []

    def collect():
        for line in poller.stdout:
            row = json.loads(line)
            samples.append((row["t"], row["free"]))

    reader = threading.Thread(target=collect)
    reader.start()
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "POLL_PRELOAD")}
    if os.environ.get("POLL_PRELOAD"):
        env["LD_PRELOAD"] = os.environ["POLL_PRELOAD"]
    job = subprocess.Popen([sys.executable, __file__, "torch", mode], env=env, stdout=subprocess.PIPE, text=True)
    out = job.communicate(timeout=75)[0]
    poller.stdin.close()
    reader.join(20)
    poller.wait(20)
    if job.returncode:
        print(f"the torch process ended with {job.returncode}", file=sys.stderr)
        return 1
    said = {
        line.split()[0]: [float(word) for word in line.split()[1:]]
        for line in out.splitlines()
        if line[:4] in ("held", "give")
    }
    held_at, (asked_at, returned_at) = said["held"][0], said["given"]
    held = statistics.median(free for t, free in samples if held_at <= t < asked_at)
    back = [t for t, free in samples if t >= asked_at and free >= held + 19.9 * GIB]
    late = [free for t, free in samples if asked_at + 3 < t < asked_at + 4.8]
    result = {
        "mode": mode,
        "seconds_until_back": round(back[0] - asked_at, 3) if back else None,
        "empty_cache_s": round(returned_at - asked_at, 4),
        "back_after_3s_gib": round((statistics.median(late) - held) / GIB, 2) if late else None,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "torch":
        torch_process(sys.argv[2])
    else:
        sys.exit(main())
