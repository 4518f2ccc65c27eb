#!/usr/bin/env python3
"""What a program may ask of PyTorch about memory, call by call: prints each answer, and how long torch.empty takes."""

import gc
import json
import os
import sys
import time

import torch

MIB = 1 << 20
CALLS = {}


def call(function):
    CALLS[function.__name__] = function
    return function


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def grown(function):
    before = torch.cuda.memory_allocated()
    kept = function()
    return torch.cuda.memory_allocated() - before, kept


@call
def memory_allocated():
    return [grown(lambda size=size: empty(size))[0] for size in (1, 1000, 64 << 10, 30 * MIB, 500 * MIB)]


@call
def max_memory_allocated():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for size in (10 * MIB, 300 * MIB, 20 * MIB):
        empty(size)
    return torch.cuda.max_memory_allocated() - before


@call
def memory_stats():
    torch.cuda.reset_accumulated_memory_stats()
    blocks = [empty(30 * MIB) for _ in range(3)]
    del blocks[1]
    stats = torch.cuda.memory_stats()
    keys = ("allocation.all.allocated", "allocation.all.freed", "allocated_bytes.all.allocated", "requested_bytes.all.freed")
    return [sorted(stats), [stats[key] for key in keys]]


@call
def memory_summary():
    return [line.split("|")[1].strip() for line in torch.cuda.memory_summary().splitlines() if line.count("|") > 4]


@call
def memory_snapshot():
    blocks = [empty(size) for size in (1000, 30 * MIB)]
    segments = torch.cuda.memory_snapshot()
    fill = all(sum(block["size"] for block in segment["blocks"]) == segment["total_size"] for segment in segments)
    live = {block["address"] for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"}
    return [fill, all(block.data_ptr() in live for block in blocks)]


@call
def history():
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    block = empty(40 * MIB)
    del block
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return [entry["action"] for entry in snapshot["device_traces"][0] if "segment" not in entry["action"]]


@call
def empty_cache():
    block = empty(700 * MIB)
    del block
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved() < torch.cuda.memory_allocated() + 100 * MIB


@call
def mem_get_info():
    free, total = torch.cuda.mem_get_info()
    block = empty(2 << 30)
    less = free - torch.cuda.mem_get_info()[0]
    del block
    return [total, less >= (2 << 30) - 64 * MIB]


@call
def per_process_memory_fraction():
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        empty(torch.cuda.get_device_properties(0).total_memory // 5)
        return "no error"
    except torch.OutOfMemoryError as error:
        return [torch.cuda.get_per_process_memory_fraction(), str(error).split(". GPU 0 has")[0]]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@call
def out_of_memory_and_on():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers[:3]))
    try:
        empty(1 << 40)
    except torch.OutOfMemoryError:
        pass
    return [seen, float(torch.ones(1000, device="cuda").sum())]


@call
def cudnn_benchmark():
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    found = torch.nn.functional.conv2d(torch.ones(8, 16, 64, 64, device="cuda"), torch.ones(32, 16, 3, 3, device="cuda"))
    torch.backends.cudnn.benchmark = False
    return float(found[0, 0, 0, 0])


@call
def record_stream():
    side, total = torch.cuda.Stream(), 0.0
    for number in range(50):
        block = torch.full((1 << 20,), float(number), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            doubled = block * 2
        block.record_stream(side)
        del block
        torch.full((1 << 20,), -1.0, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        total += float(doubled.sum())
    return total


@call
def cuda_graphs():
    given, graphs, answers = torch.ones(1 << 16, device="cuda"), [], []
    for factor in (2, 3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=graphs[0][0].pool() if graphs else None):
            found = (given * factor + 1).sum()
        graphs.append((graph, found))
    for number in range(3):
        others = [torch.full((1 << 16,), -5.0, device="cuda") for _ in range(20)]
        given.fill_(number)
        for graph, found in graphs:
            graph.replay()
            answers.append(float(found))
        del others
    return answers


@call
def mem_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((30 * MIB,), 3, dtype=torch.uint8, device="cuda")
    outside = empty(30 * MIB)
    ranges = [(segment["address"], segment["total_size"]) for segment in pool.snapshot()]
    found = [any(begin <= block.data_ptr() < begin + size for begin, size in ranges) for block in (inside, outside)]
    return [found, int(inside.sum()), pool.use_count()]


@call
def reduce_overhead():
    torch.manual_seed(0)
    weight = torch.randn(256, 256, device="cuda")

    def function(x):
        return torch.relu(x @ weight).sum(dim=1)

    compiled, answers = torch.compile(function, mode="reduce-overhead"), []
    for number in range(6):
        x = torch.full((32, 256), float(number), device="cuda")
        answers.append(round(float(compiled(x).sum()) / max(1.0, float(function(x).sum())), 4))
        compiled(compiled(x)[:, None].expand(32, 256).contiguous())
    return answers


@call
def caching_allocator_alloc():
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(5 * MIB)
    more = torch.cuda.memory_allocated() - before
    torch.cuda.caching_allocator_delete(address)
    return [address > 0, more, torch.cuda.memory_allocated() - before]


@call
def accelerator():
    block = empty(MIB)
    same = torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    del block
    return same


def nanoseconds():
    """The median of torch.empty with its free, in batches."""
    times = []
    for _ in range(50):
        begin = time.perf_counter_ns()
        for _ in range(1000):
            torch.empty(1024, device="cuda")
        times.append((time.perf_counter_ns() - begin) / 1000)
    return sorted(times)[len(times) // 2]


def main():
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(os.getcwd(), f"inductor-{os.getpid()}"))
    torch.zeros(1, device="cuda")
    answers = {}
    for name, function in CALLS.items():
        gc.collect()
        try:
            answers[name] = function()
        except Exception as error:
            answers[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            print(f"{name}: {error}", file=sys.stderr)
    print(json.dumps({"backend": torch.cuda.get_allocator_backend(), "answers": answers, "empty_ns": nanoseconds()}))


if __name__ == "__main__":
    main()
