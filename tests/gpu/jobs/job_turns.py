#!/usr/bin/env python3
"""One workload under several allocators at once, which take turns at every step: what slows the machine down for a while slows
all of them. Then once more with little memory: the share of its own peak that --share names.

Use: job_turns.py LIBRARY JOB[:STEPS]... [--share 1.01]

Prints a line of JSON for each job: by name the seconds of each step, PyTorch's statistics at the end, or the error."""

import argparse
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

KINDS = {
    "native": {},
    "cenote": {"CENOTE_CONF": "torch:adapter"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "gc": {"CENOTE_CONF": "torch:adapter", "PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.8,max_split_size_mb:128"},
}
CPUS = 4


def statistics(torch):
    try:
        stats = torch.cuda.memory_stats()
    except RuntimeError as error:
        return {"error": str(error).splitlines()[0]}
    keys = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms", "allocation.all.allocated")
    return {key: stats[key] for key in keys if key in stats} | {"backend": torch.cuda.get_allocator_backend()}


def work(asked, channel):
    """A child of the server: a step for each line that comes, and its seconds as the answer."""
    import torch

    if asked["job"] == "gnn":
        # It initialises the driver, which no child would survive.
        import torch_geometric.nn  # noqa: F401

    import jobs

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
    torch.manual_seed(0)
    random.seed(0)
    if asked.get("fraction"):
        torch.cuda.set_per_process_memory_fraction(asked["fraction"])
    torch.zeros(1, device=jobs.DEV)
    steps = jobs.JOBS[asked["job"]](**({"steps": asked["steps"]} if asked.get("steps") else {}))
    for _ in channel:
        try:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            alive = next(steps, steps) is not steps
            torch.cuda.synchronize()
            answer = {"s": time.perf_counter() - begin} if alive else {"end": statistics(torch)}
        except RuntimeError as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}", "end": statistics(torch)}
        channel.write(json.dumps(answer) + "\n")
        channel.flush()
        if "end" in answer:
            return


def serve():
    """Imports once what the jobs need, and forks a child for each request: CUDA is not in use before."""
    import torch  # noqa: F401
    import torchvision  # noqa: F401
    import transformers  # noqa: F401

    import jobs  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(asked["env"])
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(asked["socket"])
            work(asked, connection.makefile("rw"))
            # Not sys.exit: what Python would free at the end is not what is measured; the library's report is.
            os._exit(0)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


class Server:
    def __init__(self, library, **more):
        env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | more
        if library:
            env["LD_PRELOAD"] = library
        argv = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self):
        if self.process.stdout.readline() != "ready\n":
            sys.exit(f"the server ended with {self.process.wait()}")

    def start(self, folder, **asked):
        path = os.path.join(folder, f"{time.monotonic_ns()}")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            self.process.stdin.write(json.dumps(asked | {"socket": path}) + "\n")
            self.process.stdin.flush()
            return listener.accept()[0].makefile("rw")


def step(channel):
    try:
        channel.write("step\n")
        channel.flush()
        answer = channel.readline()
    except OSError:
        answer = ""
    return json.loads(answer) if answer else {"error": "the process ended", "end": {}}


def in_turns(channels):
    """Runs all to their ends, a step at a time; who begins moves on, and every second round goes backwards."""
    found = {name: {"steps": []} for name in channels}
    alive = list(channels)
    for index in itertools.count():
        if not alive:
            return found
        order = alive[index % len(alive) :] + alive[: index % len(alive)]
        for name in order[::-1] if index % 2 else order:
            answer = step(channels[name])
            if "s" in answer:
                found[name]["steps"].append(round(answer["s"], 6))
            else:
                found[name] |= answer
                alive.remove(name)


def compare(args, servers, folder, job):
    job, _, steps = job.partition(":")

    def start(kind, fraction=None):
        server = servers["preload" if "CENOTE_CONF" in KINDS[kind] else "async" if kind == "async" else "plain"]
        return server.start(folder, job=job, steps=int(steps or 0), env=KINDS[kind], fraction=fraction)

    names = args.kinds.split(",")
    found = in_turns({f"{kind}{names[:at].count(kind)}": start(kind) for at, kind in enumerate(names)})
    print(json.dumps({"job": job, "phase": "free", "found": found}), flush=True)
    if not args.share:
        return
    peaks = {name.rstrip("0123456789"): run.get("end", {}).get("allocated_bytes.all.peak") for name, run in found.items()}
    fractions = {kind: args.share * peaks[kind] / args.total for kind in ("cenote", "native") if peaks.get(kind)}
    channels = {"free": start("cenote")} | {kind: start(kind, fraction) for kind, fraction in fractions.items()}
    if peaks.get("native"):
        channels["async"] = start("async", fractions["native"])
    print(json.dumps({"job": job, "phase": "limited", "share": args.share, "found": in_turns(channels)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?")
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--kinds", default="native,cenote,native,cenote")
    parser.add_argument("--share", type=float)
    parser.add_argument("--total", type=int, help="bytes of the card, as PyTorch has them")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    # PyTorch reads which allocator it has when it is loaded.
    servers = {"plain": Server(None), "preload": Server(args.library), "async": Server(None, **KINDS["async"])}
    for server in servers.values():
        server.wait()
    if not args.total:
        ask = "import torch; print(torch.cuda.get_device_properties(0).total_memory)"
        args.total = int(subprocess.check_output([sys.executable, "-c", ask], text=True))
    with tempfile.TemporaryDirectory() as folder:
        for job in args.jobs:
            compare(args, servers, folder, job)
    for server in servers.values():
        server.process.stdin.close()
        server.process.wait(30)


if __name__ == "__main__":
    main()
