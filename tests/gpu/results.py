"""The table that is printed last, and gpu.json or bench.json."""

import datetime
import hashlib
import json
import subprocess
import threading

from lab import describe


class Results:
    """Rows as they come in; the JSON file is rewritten with each, so that a run cut short leaves its results."""

    def __init__(self, lab):
        self.lab, self.rows, self.card, self.order, self.more = lab, [], {}, [], {}
        self._lock = threading.Lock()

    def record(self, check, outcome, runs):
        row = {
            "check": check.name,
            "question": check.question,
            "result": outcome.status,
            "figures": outcome.figures,
            "data": outcome.data,
            "runs": [
                {
                    "command": describe(self.lab, check.name, run.command),
                    "exit": run.code,
                    "seconds": round(run.seconds, 2),
                    "result": run.result,
                    "reports": [path.name for path in run.reports],
                }
                for run in runs.values()
            ],
        }
        with self._lock:
            self.rows.append(row)
            print(f"{self.lab.left():4.0f} s left  {outcome.status:4}  {check.name}: {outcome.figures}", flush=True)
            self.write()

    def write(self):
        result = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "quick": self.lab.quick,
        }
        text = json.dumps(result | {"machine": self.card, "checks": self.rows} | self.more, indent=1)
        (self.lab.out / f"{self.lab.name}.json").write_text(text)

    @property
    def failed(self):
        return any(row["result"] == "FAIL" for row in self.rows)

    def table(self, brief=False):
        """All rows in order; in brief without those that have nothing to say but that a process ran."""
        place = {name: index for index, name in enumerate(self.order)}
        self.rows.sort(key=lambda row: place.get(row["check"], len(place)))
        rows = [row for row in self.rows if not (brief and row["result"] == "fact" and row["runs"])]
        lines = [f"{'check':28} {'result':6} figures"]
        lines += [f"{row['check']:28} {row['result']:6} {row['figures'][:230]}" for row in rows]
        counts = {
            status: sum(row["result"] == status for row in self.rows) for status in ("ok", "FAIL", "skip", "fact")
        }
        return "\n".join([*lines, ", ".join(f"{count} {status}" for status, count in counts.items())])


def first_line(*argv):
    try:
        out = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.strip().splitlines()
        return out[0] if out else "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def machine():
    """Card, driver and versions."""
    query = (
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total,memory.used,compute_cap",
        "--format=csv,noheader",
    )
    card = first_line(*query).split(", ")
    versions = "import torch; print(torch.__version__, torch.version.cuda)"
    try:
        nvcc = (
            subprocess.run(["nvcc", "--version"], capture_output=True, text=True, timeout=30)
            .stdout.strip()
            .splitlines()[-1]
        )
    except (OSError, IndexError, subprocess.SubprocessError):
        nvcc = "unknown"
    names = ("card", "driver", "memory", "in_use_before", "compute_capability")
    return dict(zip(names, card, strict=False)) | {
        "torch": first_line("python3", "-c", versions),
        "nvcc": nvcc,
        "kernel": first_line("uname", "-r"),
    }
