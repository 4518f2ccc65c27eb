"""Makes the peers ready to be measured: their harness is built, and RMM installed, in the folder of this run."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import programs
from lab import CUDA, ROOT

HEADER = "cuda_runtime_api.h"
PEERS, TRACES, WHEELS = (ROOT / ".gpu" / name for name in ("peers", "traces", "wheels"))


def folder(lab):
    return lab.programs / "peers"


def library(lab):
    return lab.programs / "pool_bench.so"


def site(lab):
    return lab.work / "site"


def steps(lab):
    """What has to run, by name. pip takes only what lies in the folder, and RMM's needs are torch's too."""
    bench = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-o", library(lab), CUDA / "pool_bench.cpp", "-lpthread"]
    wanted = {"peers": ["bash", folder(lab) / "build.sh"], "pool_bench": bench}
    if wheels := sorted(WHEELS.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile"]
        wanted["rmm"] = [*pip, "--no-cache-dir", "--target", site(lab), *wheels]
    return {name: [str(word) for word in argv] for name, argv in wanted.items()}


def environment(lab):
    """Where the compiler finds CUDA, also where that came as Python packages."""
    runtime = programs.runtime_folder()
    nvcc = shutil.which("nvcc")
    home = pathlib.Path(nvcc).resolve().parents[1] if nvcc else None
    env = dict(os.environ)
    if home and (home / "include" / HEADER).exists():
        env.setdefault("CUDA_HOME", str(home))
    if runtime:
        programs.link_names(lab, runtime)
        found = {"LIBRARY_PATH": [lab.programs / "lib"]}
        found["CPATH"] = [up / "include" for up in runtime.parents if (up / "include" / HEADER).exists()][:1]
        for name, folders in found.items():
            # An empty entry would mean the current folder.
            if entries := [*map(str, folders), *filter(None, [env.get(name)])]:
                env[name] = ":".join(entries)
    return env


def prepare(lab):
    """Returns what went wrong, by name."""
    failed, env = {}, environment(lab)
    shutil.copytree(PEERS, folder(lab))

    def one(step):
        name, argv = step
        try:
            done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=150)
        except (OSError, subprocess.SubprocessError) as error:
            failed[name] = str(error)
            return
        lab.note(f"### {name}: {' '.join(argv)}\n{done.stdout}{done.stderr}")
        if done.returncode:
            failed[name] = (done.stdout + done.stderr).strip()[-300:] or f"exit status {done.returncode}"

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(one, steps(lab).items()))
    return failed
