"""libcenote.so as this process has it, and its structs as include/cenote.h has them.

It is preloaded as a rule (`cenote run`, LD_PRELOAD). Nothing here loads it but `open_library`, which somebody has to call.
"""

import ctypes
import os
import shutil
import sys
from pathlib import Path

NAME = "libcenote.so"
OK, INVALID_VALUE = 0, 1


class Count(ctypes.Structure):
    """struct cenote_count"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("current", "peak", "allocated", "freed")]


class Stats(ctypes.Structure):
    """struct cenote_stats"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("allocated_bytes", Count),
        ("requested_bytes", Count),
        ("blocks", Count),
        ("reserved_bytes", Count),
        ("limit_bytes", ctypes.c_uint64),
        ("pages_created", ctypes.c_uint64),
        ("pages_moved", ctypes.c_uint64),
        ("moved_bytes", ctypes.c_uint64),
        ("misses", ctypes.c_uint64),
        ("retries", ctypes.c_uint64),
        ("ooms", ctypes.c_uint64),
        ("size_mismatches", ctypes.c_uint64),
        ("invalid_frees", ctypes.c_uint64),
        ("marks", ctypes.c_uint64),
        ("pages", Count),
        ("small_allocated_bytes", Count),
        ("small_requested_bytes", Count),
        ("small_blocks", Count),
        ("large_allocated_peak", ctypes.c_uint64),
        ("large_requested_peak", ctypes.c_uint64),
        ("large_blocks_peak", ctypes.c_uint64),
    ]


class Usage(ctypes.Structure):
    """struct cenote_usage"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("pending_bytes", ctypes.c_uint64),
        ("pending_blocks", ctypes.c_uint64),
        ("inactive_split_bytes", ctypes.c_uint64),
        ("inactive_split_blocks", ctypes.c_uint64),
        ("small_reserved_bytes", ctypes.c_uint64),
        ("small_pages", ctypes.c_uint64),
        ("small_inactive_split_bytes", ctypes.c_uint64),
        ("small_inactive_split_blocks", ctypes.c_uint64),
        ("largest_free_bytes", ctypes.c_uint64),
        ("device_total_bytes", ctypes.c_uint64),
        ("device_free_bytes", ctypes.c_uint64),
    ]


OomCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)

# What each function returns, and takes.
SIGNATURES = {
    "cenote_version": (ctypes.c_char_p, []),
    "cenote_stats": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(Stats)]),
    "cenote_usage": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(Usage)]),
    "cenote_reset_peaks": (ctypes.c_int, [ctypes.c_int]),
    "cenote_set_limit": (ctypes.c_int, [ctypes.c_int, ctypes.c_uint64]),
    "cenote_trim": (ctypes.c_uint64, []),
    "cenote_mark": (None, [ctypes.c_char_p]),
    "cenote_on_oom": (None, [OomCallback, ctypes.c_void_p]),
    "cenote_dump": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
    "cenote_torch_adapter": (ctypes.c_int, []),
}

# All that the program was started with; what is preloaded is part of it.
_program = ctypes.CDLL(None) if sys.platform == "linux" else None
_opened = None


def is_preloaded():
    """Whether the library is in front of, or among, what the program was started with."""
    return hasattr(_program, "cenote_version")


def open_library(path):
    """Opens a library that is not preloaded: its hooks stay asleep, its functions work."""
    global _opened
    if _opened is None:
        _opened = ctypes.CDLL(str(path))
    return _opened


def function(name):
    """A function of the library; None where the library is not loaded or too old to have it."""
    library = _program if is_preloaded() else _opened
    found = getattr(library, name, None)
    if found is not None:
        found.restype, found.argtypes = SIGNATURES[name]
    return found


def find():
    """The library's file: the one that is loaded, that CENOTE_LIBRARY names, or that lies with the command `cenote`."""
    named = os.environ.get("CENOTE_LIBRARY")
    places = [*_mapped(), *([Path(named)] if named else []), *_installed()]
    return next((place for place in places if place.is_file()), None)


def _mapped():
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[-1] for line in lines if line.endswith("/" + NAME))
    return [Path(path) for path in dict.fromkeys(paths)]


def _installed():
    program = shutil.which("cenote")
    if program is None:
        return []
    folder = Path(program).resolve().parent
    return [folder / place / NAME for place in ("", "../lib", "../lib/cenote", "../lib64")]


def filled(struct, name, device):
    """A struct that the library fills for a device, as a dict: the fields that this library knows. Empty where there is none."""
    fill = function(name)
    values = struct()
    values.size = ctypes.sizeof(struct)
    if fill is None or fill(device, ctypes.byref(values)) != OK:
        return {}
    fields = [field for field, _ in struct._fields_ if field != "size"]
    known = (field for field in fields if getattr(struct, field).offset < values.size)
    return {field: _plain(getattr(values, field)) for field in known}


def _plain(value):
    if isinstance(value, Count):
        return {name: getattr(value, name) for name, _ in Count._fields_}
    return value
