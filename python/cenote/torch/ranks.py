"""The memory of all ranks of a job, side by side."""

import os
import socket

from .memory import Memory, in_units

COMPARED = ("allocated", "allocated_peak", "reserved", "reserved_peak")


def all_ranks(device=None):
    """Gathers every rank's numbers; all ranks have to call it. {} where there is no PyTorch.

    "ranks" has a dict for each, "imbalance" for each number its largest value and rank, the mean, and the ratio of the two; "text" says
    the worst of it in a line. Without torch.distributed there is one rank.
    """
    try:
        import torch
    except ImportError:
        return {}
    ranks = _gather(torch, _mine(torch, device))
    imbalance = {name: imbalance_of(ranks, name) for name in COMPARED}
    return {"ranks": ranks, "imbalance": imbalance, "text": _text(imbalance)}


def imbalance_of(ranks, name):
    """Where a number is largest, and how far that is above the mean."""
    largest = max(ranks, key=lambda row: row[name])
    mean = sum(row[name] for row in ranks) / len(ranks)
    return {"max": largest[name], "rank": largest["rank"], "mean": mean, "ratio": largest[name] / mean if mean else 1.0}


def _gather(torch, mine):
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return [mine]
    mine["rank"] = distributed.get_rank()
    rows = [None] * distributed.get_world_size()
    distributed.all_gather_object(rows, mine)
    return rows


def _mine(torch, device):
    row = {"rank": 0, "host": socket.gethostname(), "pid": os.getpid(), "device": None}
    row.update(dict.fromkeys((*COMPARED, "device_free", "device_total", "ooms"), 0))
    if not torch.version.cuda or not torch.cuda.is_available():
        return row
    memory = Memory(torch, device)
    row.update({name: getattr(memory, name)() for name in COMPARED})
    free, total = memory.free_and_total()
    row.update(device=memory.device, device_free=free, device_total=total, ooms=memory.refusals())
    return row


def _text(imbalance):
    name = max(("allocated_peak", "reserved_peak"), key=lambda name: imbalance[name]["ratio"])
    found = imbalance[name]
    what = name.replace("_", " ")
    return f"{what}: rank {found['rank']} has {in_units(found['max'])}, {found['ratio']:.2f} times the mean of {in_units(found['mean'])}"
