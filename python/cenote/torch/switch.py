"""Changing models: what the old one leaves behind, and who holds it."""

from .holders import holders, tensors
from .memory import Memory, in_units, with_device


class Left:
    """What stayed when a `with switch()` ended. Before that, and where there is no PyTorch with a CUDA device, nothing."""

    def __init__(self):
        # Bytes that are allocated beyond those at the start, and that went back to the driver at the end.
        self.bytes = 0
        self.released = 0
        # Dicts with type, shape, dtype, bytes, and names: where the program holds the tensor.
        self.holders = []
        # Of `bytes`, those that no living tensor of Python accounts for: an autograd graph's, or a library's.
        self.unexplained = 0

    def __str__(self):
        lines = [f"{in_units(self.bytes)} stayed, {in_units(self.released)} went back to the driver"]
        for each in self.holders:
            where = ", ".join(each["names"]) or "somewhere"
            lines.append(f"  {in_units(each['bytes'])} {each['type']}{each['shape']} {each['dtype']}: {where}")
        if self.unexplained:
            lines.append(f"  {in_units(self.unexplained)} of no living tensor: autograd graphs, or libraries")
        return "\n".join(lines)


class switch:
    """A context in which one model is used and given up.

    with switch() as left:
        model = load("a")
        ...
        del model
    print(left)

    At its end garbage is collected and what is free goes back to the driver; `left` tells what stayed of what was allocated in between.
    `most` tensors are named, the largest first.
    """

    def __init__(self, device=None, most=10):
        self.left = Left()
        self.device, self.most = device, most
        self.memory = None

    def __enter__(self):
        torch = with_device()
        if torch:
            self.memory = Memory(torch, self.device)
            self.memory.clean()
            self.before = self.memory.allocated()
            self.known = {id(tensor): reference for tensor, reference in tensors(torch, self.memory.device)}
        return self.left

    def __exit__(self, kind, error, trace):
        if self.memory is None:
            return
        memory, left = self.memory, self.left
        held = memory.reserved()
        memory.clean()
        left.released = max(0, held - memory.reserved())
        left.bytes = max(0, memory.allocated() - self.before)
        if left.bytes:
            left.holders, explained = holders(memory.torch, memory.device, self.known, self.most)
            left.unexplained = max(0, left.bytes - explained)
