#!/usr/bin/env python3
"""Hands tensors of many sizes to a second process through torch.multiprocessing, which changes them in place and sends one back."""

import json
import os

import torch
import torch.multiprocessing as mp

SIZES = [1, 18, 40, 1024, 16384, 262144, 524313, 1048576, 4197390]


def consume(inbox, outbox):
    while (tensor := inbox.get()) is not None:
        seen = int(tensor.sum(dtype=torch.int64))
        tensor += 1
        made = tensor[len(tensor) // 2 :] * 3
        torch.cuda.synchronize()
        del tensor
        outbox.put((seen, made))
    # Whoever made a tensor keeps it until the other one has let it go.
    outbox.put(len(os.listdir("/proc/self/fd")))


def main():
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    peer = context.Process(target=consume, args=(inbox, outbox))
    peer.start()
    rounds, wrong, sums = 3, 0, []
    for seed in range(rounds):
        torch.cuda.empty_cache()
        tensors = [torch.arange(size, device="cuda", dtype=torch.int32) % 251 + seed for size in SIZES]
        torch.cuda.synchronize()
        for tensor in tensors:
            expected = int(tensor.sum(dtype=torch.int64))
            inbox.put(tensor)
            got, made = outbox.get(timeout=60)
            sums.append(got)
            wrong += got != expected
            wrong += not torch.equal(made, tensor[len(tensor) // 2 :] * 3)
            del made
            wrong += int(tensor.sum(dtype=torch.int64)) != expected + tensor.numel()
        del tensors
    inbox.put(None)
    files = [len(os.listdir("/proc/self/fd")), outbox.get(timeout=60)]
    peer.join(60)
    backend = torch.cuda.get_allocator_backend()
    print(json.dumps({"result": sums, "wrong": wrong, "peer_exit": peer.exitcode, "backend": backend, "files": files}))
    return 1 if wrong or peer.exitcode else 0


if __name__ == "__main__":
    raise SystemExit(main())
