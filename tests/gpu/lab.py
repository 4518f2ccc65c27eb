"""One run of the acceptance: where things lie, how a child process is started, and how much time is left."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGE = ROOT / ".gpu" / "stage"
WORKLOADS = ROOT / ".gpu" / "workloads"
LIBRARY = STAGE / "libcenote.so"
CENOTE = STAGE / "cenote"
CUDA = ROOT / "tests" / "gpu" / "cuda"
JOBS = ROOT / "tests" / "gpu" / "jobs"
SKIP = 77  # exit status of a job that cannot run on this machine


@dataclass
class Command:
    """A child process: `label` names it within its check, `preload` puts the library under it."""

    label: str
    argv: list
    preload: bool = False
    env: dict = field(default_factory=dict)
    timeout: int = 90
    expect: tuple = (0,)


@dataclass
class Run:
    """What a child process did."""

    command: Command
    code: int
    out: str
    err: str
    seconds: float
    timed_out: bool = False
    reports: list = field(default_factory=list)

    @property
    def rows(self):
        """Every line of JSON that it printed."""
        rows = []
        for line in self.out.splitlines():
            if line.startswith("{"):
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    rows.append({"unreadable": line[:200]})
        return rows

    @property
    def result(self):
        """The last of them."""
        return self.rows[-1] if self.rows else {}

    @property
    def trouble(self):
        """Why the run does not count, or None."""
        if self.timed_out:
            return f"{self.command.label}: no end after {self.seconds:.0f} s"
        if self.code not in self.command.expect:
            last = (self.err.strip().splitlines() or [""])[-1]
            return f"{self.command.label}: exit status {self.code}: {last[:160]}"
        return None


class Lab:
    """Folders, environment, log and clock of one run."""

    def __init__(self, out, work, quick, seconds, name="gpu"):
        self.out, self.work, self.quick = pathlib.Path(out).absolute(), pathlib.Path(work), quick
        self.programs, self.reports = self.work / "bin", self.work / "reports"
        self.name, self.deadline = name, time.monotonic() + seconds
        self._log, self._lock = None, threading.Lock()

    def open(self):
        for folder in (self.out, self.programs, self.reports, self.work / "pages"):
            folder.mkdir(parents=True, exist_ok=True)
        self._log = open(self.out / f"{self.name}.log", "w", buffering=1)
        for file in (LIBRARY, CENOTE, WORKLOADS / "jobs.py"):
            if not file.exists():
                sys.exit(f"{file.relative_to(ROOT)} is missing: run `scripts/gpu --stage` after the build")
        CENOTE.chmod(0o755)

    def close(self):
        self._log.close()

    def left(self):
        return self.deadline - time.monotonic()

    def program(self, name, *args):
        return [str(self.programs / name), *map(str, args)]

    def job(self, name, *args):
        return [sys.executable, str(JOBS / name), *map(str, args)]

    def note(self, text):
        with self._lock:
            if self._log:
                self._log.write(text.rstrip("\n") + "\n")

    def environment(self, check, command):
        """The caller's environment without anything that changes how memory is used, and what the command asks for."""
        foreign = ("LD_PRELOAD", "CENOTE_", "PYTORCH_", "XLA_", "CUDA_MODULE_LOADING", "TORCHINDUCTOR_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        env |= {
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "4",
            "PYTHONPATH": str(WORKLOADS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        env |= self.preload_variables(check, command)
        if not command.preload:
            env.pop("LD_PRELOAD")
        return env | command.env

    def preload_variables(self, check, command):
        stem = f"{check}.{command.label}".replace(" ", "_").replace(":", "_").replace("/", "_")
        return {
            "LD_PRELOAD": str(LIBRARY),
            "CENOTE_OUTPUT": str(self.reports / f"{stem}-%p.json"),
            "CENOTE_RUNTIME_DIR": str(self.work / "pages"),
            "CENOTE_LOG": "warn",
        }

    def run(self, check, command):
        """Starts the command in a process group of its own and kills the group when its time is up."""
        env = self.environment(check, command)
        pattern = pathlib.Path(env["CENOTE_OUTPUT"]).name.replace("%p", "*")
        limit = max(1, min(command.timeout, self.left()))
        begin, timed_out = time.monotonic(), False
        child = subprocess.Popen(
            command.argv,
            env=env,
            cwd=self.work,
            text=True,
            errors="replace",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            end_group(child.pid)
            out, err = child.communicate()
        end_group(child.pid)  # whatever a job left behind would disturb the next one
        run = Run(
            command, child.returncode, out, err, time.monotonic() - begin, timed_out, sorted(self.reports.glob(pattern))
        )
        ending = f"{run.seconds:.1f} s, exit status {run.code}{', killed' if timed_out else ''}"
        self.note(f"\n### {check} / {describe(self, check, command)}\n# {ending}, {len(run.reports)} report(s)")
        self.note(f"{out[-20000:]}\n--- stderr\n{err[-8000:]}")
        return run


def end_group(leader):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def describe(lab, check, command):
    """The command as one would type it."""
    shown = [f"{k}={v}" for k, v in command.env.items()]
    if command.preload:
        shown.insert(0, "LD_PRELOAD=libcenote.so")
    words = [str(word).replace(str(ROOT) + "/", "").replace(str(lab.programs), "$BIN") for word in command.argv]
    words = ["python3" if word == sys.executable else word for word in words]
    return f"{command.label}: {' '.join(shown + words)}"
