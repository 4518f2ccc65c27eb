"""cenote under PyTorch: the adapter, and what a program does with the numbers.

Where there is no PyTorch, or no CUDA in it, every function does nothing and returns what its description names.
"""

from .. import dump, mark, on_oom, reset_peaks, stats, trim
from .adapter import enable, limit
from .fit import fit_batch
from .ranks import all_ranks
from .switch import switch

__all__ = [
    "all_ranks",
    "dump",
    "enable",
    "fit_batch",
    "limit",
    "mark",
    "on_oom",
    "reset_peaks",
    "stats",
    "switch",
    "trim",
]
