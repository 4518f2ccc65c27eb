"""cenote beside its peers, all through the peers' harness: who is measured when, and what is kept of it.

Every allocator is measured in a process of its own, with nothing else on the card: two rounds, the second in the
opposite order, and of each figure the better one counts, so that a disturbance costs nobody a verdict. The second round
leaves out what takes seconds for a slow allocator, DALI's mix, which has no budget, and the replays.
"""

import tempfile

import budgets
import peers
import results
from check import Check, Outcome, Schedule, fact, fail
from figures import Figures, table
from lab import LIBRARY, Command, Lab, describe

OURS = f"{LIBRARY}:cenote_torch_alloc:cenote_torch_free:cenote_trim"
PEERS = ("native", "expandable", "async", "rmm-pool", "rmm-arena")
# Seconds that a part takes in either round, after the start of the process.
SECONDS = {"latency": (8, 5), "grid": (6, 1), "dali": (4, 0)}
START = 6
PARTS = (*SECONDS, "capacity")


class Bench:
    """The checks of one run: processes that fill `figures`, then the budgets."""

    def __init__(self, lab, only, every):
        unknown = [part for part in only if part not in PARTS]
        if unknown:
            raise SystemExit(f"the bench has no {', '.join(unknown)}, only {', '.join(PARTS)}")
        self.lab, self.every, self.figures = lab, every, Figures()
        self.parts = [part for part in PARTS if not only or part in only]
        self.rows = [who for who in PEERS if not who.startswith("rmm") or list(peers.WHEELS.glob("*.whl"))]
        self.absent = [who for who in PEERS if who not in self.rows]

    def process(self, turn, who, parts, seconds, *options, timeout=None):
        argv = self.lab.job("pool_bench.py", OURS if who == "cenote" else who, *parts)
        argv += ["--peers", str(peers.folder(self.lab)), "--library", str(peers.library(self.lab)), *map(str, options)]
        env = {"PYTHONPATH": str(peers.site(self.lab))} if who.startswith("rmm") else {}
        command = Command(f"{turn} {who}", argv, env=env, timeout=timeout or max(60, 3 * seconds))

        def keep(runs):
            (run,) = runs.values()
            count = self.figures.take(turn, who, run.rows)
            # Where the time ran out, or the peer did, what it had said until then is right.
            if run.trouble and (who == "cenote" or not count):
                return fail(f"{run.trouble}; {count} figures")
            return fact(f"{count} figures in {run.seconds:.0f} s" + (f", then {run.trouble}" if run.trouble else ""))

        question = f"{who}: {', '.join(parts)}"
        return Check(f"run:{turn}:{who}", question, [command], keep, seconds, True, tolerant=True)

    def processes(self):
        timed = [part for part in self.parts if part in SECONDS]
        traces = ("--traces", peers.TRACES)
        if "capacity" in self.parts:
            yield self.process("capacity", "cenote", ["capacity"], 25, *traces, timeout=120)
            yield self.process("replay", "expandable", ["replay"], 20, *traces)
        if timed:
            again = [] if self.lab.quick else [part for part in timed if SECONDS[part][1]]
            first, second = (START + sum(SECONDS[part][turn] for part in timed) for turn in (0, 1))
            for who in ("cenote", *self.rows):
                yield self.process("first", who, timed, first)
            for who in (*reversed(self.rows), "cenote") if again else ():
                yield self.process("second", who, again, second, "--brief")
        if "capacity" in self.parts:
            # Last, since no budget asks for them, and in what time is left: a peer can take minutes.
            until = ("--until", f"{self.lab.deadline - 3:.0f}")
            for who in self.rows if self.every else ["expandable"]:
                yield self.process("capacity", who, ["capacity"], 20, *traces, *until, timeout=150)

    def checks(self):
        return [*self.processes(), *budgets.checks(self.figures, self.parts)]


def print_plan(lab, bench):
    for argv in peers.steps(lab).values():
        print("build:", " ".join(argv).replace(str(lab.programs), "$BIN").replace(str(lab.work), "$WORK"))
    if bench.absent:
        print(f"skipped, no wheels in {peers.WHEELS.name}/: {', '.join(bench.absent)}")
    for check in bench.checks():
        print(f"\n{check.name}: {check.question}" + (f" [about {check.seconds} s]" if check.commands else ""))
        for command in check.commands:
            print("   ", describe(lab, check.name, command).replace(str(lab.work), "$WORK"))


def measure(lab, bench):
    lab.open()
    outcome = results.Results(lab)
    outcome.card = results.machine() | {"library": results.digest(LIBRARY)}
    outcome.more = {"figures": bench.figures.best, "said": bench.figures.said}
    print(", ".join(f"{key} {value}" for key, value in outcome.card.items()), flush=True)
    failed = peers.prepare(lab)
    for name, text in failed.items():
        outcome.record(Check(f"build:{name}", "Is it there?", [], None), Outcome("FAIL", text), {})
    if failed.keys() - {"rmm"}:
        return 1
    if "rmm" in failed:
        bench.rows, bench.absent = [who for who in bench.rows if not who.startswith("rmm")], ["rmm-pool", "rmm-arena"]
    if bench.absent:
        outcome.record(Check("rmm", "Is RMM there?", [], None), Outcome("skip", f"no {', '.join(bench.absent)}"), {})
    checks = bench.checks()
    outcome.order = [check.name for check in checks]
    Schedule(lab, outcome.record).run(checks)
    print(f"\n{table(bench.figures, bench.rows)}\n\n{outcome.table(brief=True)}", flush=True)
    lab.close()
    return 1 if outcome.failed else 0


def run(out, quick, seconds, only, every, dry):
    if not dry and not (peers.PEERS / "measure.py").exists():
        raise SystemExit(".gpu/peers is missing: run `scripts/gpu --stage --peers FOLDER --traces FOLDER`")
    with tempfile.TemporaryDirectory(prefix="cenote-bench-") as work:
        lab = Lab(out, work, quick, seconds, "bench")
        bench = Bench(lab, only, every)
        return print_plan(lab, bench) if dry else measure(lab, bench)
