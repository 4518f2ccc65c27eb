#!/usr/bin/env python3
"""Hands tensors of many sizes to a second process through torch.multiprocessing, which changes them in place."""

import json

import torch
import torch.multiprocessing as mp

SIZES = [1, 18, 40, 1024, 16384, 262144, 524313, 1048576, 4197390]


def consume(inbox, outbox):
    sums = []
    while (tensor := inbox.get()) is not None:
        sums.append(int(tensor.sum(dtype=torch.int64)))
        tensor += 1
        torch.cuda.synchronize()
        del tensor
        outbox.put(sums[-1])


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
            got = outbox.get(timeout=60)
            sums.append(got)
            wrong += got != expected
            wrong += int(tensor.sum(dtype=torch.int64)) != expected + tensor.numel()
        del tensors
    inbox.put(None)
    peer.join(60)
    print(json.dumps({"result": sums, "wrong": wrong, "peer_exit": peer.exitcode}))
    return 1 if wrong or peer.exitcode else 0


if __name__ == "__main__":
    raise SystemExit(main())
