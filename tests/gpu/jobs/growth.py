#!/usr/bin/env python3
"""What raises the used memory of the card beyond torch's own reserved memory, stage by stage. Needs the card alone.

With the library and `report_every`, also what its report says after each stage."""

import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F

stages, seen = [], {}
REPORT = os.environ.get("CENOTE_OUTPUT", "").replace("%p", str(os.getpid()))


def calls_since(now):
    """The hooked calls of the stage, by name."""
    before = dict(seen)
    seen.update(now)
    return {name: count - before.get(name, 0) for name, count in now.items() if count > before.get(name, 0)}


def account(since):
    """The card's account in the first report with numbers from after `since`, in Unix seconds; none without one."""
    end = time.time() + 3
    while "report_every" in os.environ.get("CENOTE_CONF", "") and time.time() < end:
        time.sleep(0.02)
        try:
            with open(REPORT) as file:
                report = json.load(file)
            memory = report["devices"][0]["memory"]
        except (OSError, ValueError, LookupError):
            continue
        if memory["sampled_unix_ns"] >= since * 1e9:
            keys = ("driver_used_bytes", "tracked_bytes", "context_bytes", "unaccounted_bytes", "unaccounted_known")
            return {key: memory[key] for key in keys} | {"calls": calls_since(report["coverage"]["calls"])}
    return None


def stage(name, action):
    kept = action()
    torch.cuda.synchronize()
    since = time.time()
    free, total = torch.cuda.mem_get_info()
    used, reserved = total - free, torch.cuda.memory_reserved()
    before = stages[-1]["beyond"] if stages else 0
    row = {"stage": name, "used": used, "beyond": used - reserved, "raised": used - reserved - before}
    stages.append(row | {"report": account(since)})
    return kept


def attention(x):
    q = x[: 4 * 4 * 512 * 64].view(4, 4, 512, 64).to(torch.bfloat16)
    return F.scaled_dot_product_attention(q, q, q)


def main():
    stage("context", torch.cuda.synchronize)
    x = stage("first block, no kernel", lambda: torch.empty(1 << 24, device="cuda"))
    stage("first kernel", lambda: x.fill_(1))
    stage("more kernels", lambda: x * 2 + 1)
    stage("first copy to the host", lambda: x[0].item())
    stage("random numbers", lambda: torch.randn(1 << 20, device="cuda"))
    a = x[: 1 << 20].view(1024, 1024)
    stage("cuBLAS float32", lambda: a @ a)
    stage("cuBLAS bfloat16", lambda: a.bfloat16() @ a.bfloat16())
    stage("linear with bias (cuBLASLt)", lambda: F.linear(a.bfloat16(), a.bfloat16(), a[0].bfloat16()))
    image, kernel = torch.ones(8, 3, 224, 224, device="cuda"), torch.ones(64, 3, 7, 7, device="cuda")
    stage("first convolution (cuDNN)", lambda: F.conv2d(image, kernel))
    stage("second convolution", lambda: F.conv2d(image, kernel))
    stage("attention", lambda: attention(x))
    stage("first new stream (torch makes 128)", torch.cuda.Stream)
    stage("more streams", lambda: [torch.cuda.Stream() for _ in range(16)])
    stage("sort", lambda: torch.sort(x))
    stage("graph", graph)
    stage("singular values (cuSOLVER)", lambda: torch.linalg.svd(a[:64, :64]))
    print(json.dumps({"loading": os.environ.get("CUDA_MODULE_LOADING", "default"), "stages": stages}))


def graph():
    kept = torch.cuda.CUDAGraph()
    x = torch.ones(1024, device="cuda")
    with torch.cuda.graph(kept):
        y = x + 1
    kept.replay()
    return kept, y


if __name__ == "__main__":
    main()
