"""PyTorch's own numbers, whichever allocator it has, and its end of a clean-up."""

import contextlib
import gc

import cenote

CANNOT_SAY = "pluggable"


def pytorch():
    """PyTorch, if it is installed and built for CUDA."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.version.cuda else None


def with_device():
    """PyTorch, if there is a CUDA device for it."""
    torch = pytorch()
    return torch if torch and torch.cuda.is_available() else None


def backend(torch):
    """The name of PyTorch's allocator: native, cudaMallocAsync, pluggable, or cenote."""
    return torch.cuda.memory.get_allocator_backend()


class Memory:
    """The memory of a device, as PyTorch's allocator counts it. A pluggable one does not: then cenote's engine does."""

    def __init__(self, torch, device=None):
        self.torch = torch
        torch.cuda.init()
        self.device = cenote.device_index(device)
        self.by_engine = backend(torch) == CANNOT_SAY

    def _number(self, name, kind):
        if self.by_engine:
            return cenote.stats(self.device, usage=False).get(name, {}).get(kind, 0)
        return self.torch.cuda.memory_stats(self.device).get(f"{name}.all.{kind}", 0)

    def allocated(self):
        return self._number("allocated_bytes", "current")

    def allocated_peak(self):
        return self._number("allocated_bytes", "peak")

    def reserved(self):
        return self._number("reserved_bytes", "current")

    def reserved_peak(self):
        return self._number("reserved_bytes", "peak")

    def refusals(self):
        if self.by_engine:
            return cenote.stats(self.device, usage=False).get("ooms", 0)
        return self.torch.cuda.memory_stats(self.device).get("num_ooms", 0)

    def reset_peaks(self):
        if self.by_engine:
            cenote.reset_peaks(self.device)
        else:
            self.torch.cuda.reset_peak_memory_stats(self.device)

    def free_and_total(self):
        return self.torch.cuda.mem_get_info(self.device)

    def most(self):
        """Bytes that this process can have at most: what it holds and what is free, within its limits."""
        free, total = self.free_and_total()
        limits = [free + self.reserved()]
        # Not every release and not every allocator can say.
        with contextlib.suppress(AttributeError, RuntimeError):
            limits.append(int(total * self.torch.cuda.get_per_process_memory_fraction(self.device)))
        limits.append(cenote.stats(self.device, usage=False).get("limit_bytes") or total)
        return min(limits)

    def clean(self):
        """Collects garbage, waits for the work in flight and gives what is cached back to the driver."""
        gc.collect()
        self.torch.cuda.synchronize(self.device)
        self.torch.cuda.empty_cache()
        cenote.trim()


def in_units(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} bytes"
