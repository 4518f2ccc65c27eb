#!/usr/bin/env python3
"""Captures a training step into a CUDA graph and replays it, while a second thread allocates and frees outside it."""

import json
import os
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch


def churn(stop, counts):
    """Allocates past torch's cache too: large blocks are dropped from it each round."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not stop.is_set():
            blocks = [torch.full((1 << n,), 1.0, device="cuda") for n in range(8, 25, 2)]
            counts["wrong"] += int(sum(float(block[-1]) != 1.0 for block in blocks))
            counts["rounds"] += 1
            del blocks


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x, y = torch.randn(256, 512, device="cuda"), torch.randint(0, 10, (256,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)

    stop, counts = threading.Event(), {"rounds": 0, "wrong": 0}
    neighbour = threading.Thread(target=churn, args=(stop, counts))
    neighbour.start()
    # Others may use the device meanwhile: the capture must only forbid it to this thread.
    graphs, losses = [], []
    for _ in range(5):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = step()
        graphs.append(graph)
        for _ in range(20):
            graph.replay()
            losses.append(repr(loss.item()))
    stop.set()
    neighbour.join()
    torch.cuda.synchronize()
    print(
        json.dumps(
            {
                "losses": losses,
                "graphs": len(graphs),
                "neighbour_wrong": counts["wrong"],
                "neighbour_ran": counts["rounds"] > 0,
            }
        )
    )


if __name__ == "__main__":
    main()
