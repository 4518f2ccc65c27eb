"""A check (a question, its commands and a judge of their output) and the schedule that runs many of them."""

import concurrent.futures
from collections.abc import Callable
from dataclasses import dataclass, field

import truth
from lab import SKIP

PARALLEL = 8  # jobs on the card at once, where time does not matter


@dataclass
class Outcome:
    """`status` is ok, FAIL, skip or fact (printed, never judged)."""

    status: str
    figures: str = ""
    data: dict = field(default_factory=dict)


def ok(figures="", **data):
    return Outcome("ok", figures, data)


def fail(figures, **data):
    return Outcome("FAIL", figures, data)


def fact(figures, **data):
    return Outcome("fact", figures, data)


def verdict(good, figures, **data):
    return Outcome("ok" if good else "FAIL", figures, data)


@dataclass
class Check:
    """`judge` gets the runs by label. Where it answers None, the commands of `again` run too and it is asked anew."""

    name: str
    question: str
    commands: list
    judge: Callable
    seconds: int = 30  # what it usually takes, for the schedule
    alone: bool = False  # measures time, or what the whole card holds
    again: list = field(default_factory=list)
    tolerant: bool = False  # the judge looks at exit statuses itself


class Schedule:
    """Runs checks in order, those that may share the card PARALLEL at a time, and keeps what came out."""

    def __init__(self, lab, record):
        self.lab, self.record, self.remarks = lab, record, []

    def run(self, checks):
        batch = []
        for check in checks:
            if not check.alone:
                batch.append(check)
                continue
            self._together(batch)
            batch = []
            self._one(check)
        self._together(batch)

    def _together(self, batch):
        longest_first = sorted(batch, key=lambda check: -check.seconds)
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(self._one, longest_first))

    def _one(self, check):
        runs = {}
        if check.commands and self.lab.left() < check.seconds:
            outcome = Outcome("skip", f"no time left: {self.lab.left():.0f} s, needs about {check.seconds}")
        else:
            try:
                outcome = self._judge(check, runs)
            except Exception as error:  # a judge that stumbles over odd output has found something
                outcome = fail(f"{type(error).__name__}: {error}")
        for run in runs.values():
            self._read_reports(check, run)
        self.record(check, outcome, runs)

    def _judge(self, check, runs):
        for commands in (check.commands, check.again):
            for command in commands:
                run = runs[command.label] = self.lab.run(check.name, command)
                if run.code == SKIP:
                    return Outcome("skip", (run.out + run.err).strip().splitlines()[-1][:160])
                if run.timed_out and self.lab.left() <= 0:
                    return Outcome("skip", f"{command.label}: the time for everything ran out")
                if run.trouble and not check.tolerant:
                    return fail(run.trouble)
            outcome = check.judge(runs)
            if outcome is not None:
                return outcome
        return fail("the judge came to no verdict")

    def _read_reports(self, check, run):
        """Whatever else a check is about, its reports must be readable and add up."""
        if not run.command.preload or (run.trouble and not run.reports):
            return
        if not run.reports:
            self.remarks.append(f"{check.name}/{run.command.label}: no report")
        for path in run.reports:
            self.remarks += [f"{path.name}: {problem}" for problem in truth.problems(path)]
