"""cenote's pool from inside a Python program: numbers, limits, the report.

The library itself is put under the program, by `cenote run` or LD_PRELOAD. Where it is not there, every function does nothing and
returns what its description names. PyTorch's side is `cenote.torch`.
"""

import atexit
import ctypes
import os
import sys
import traceback

from . import _library

__version__ = "0.1.0"
__all__ = ["dump", "is_loaded", "library_version", "limit", "mark", "on_oom", "reset_peaks", "stats", "trim"]

_NO_LIMIT = (1 << 64) - 1
_LONGEST_PATH = 4096
# Callbacks that the library may still be about to call: they live as long as the process.
_callbacks = []


def is_loaded():
    """Whether libcenote.so is in this process."""
    return _library.function("cenote_version") is not None


def library_version():
    """The library's version, such as "0.1.0"; None where it is not loaded."""
    version = _library.function("cenote_version")
    return version().decode() if version else None


def stats(device=None, usage=True):
    """The numbers of a device: struct cenote_stats and, unless `usage` is false, struct cenote_usage, which looks at every free block.

    A count is a dict of current, peak, allocated and freed. `limit_bytes` is None without a limit. {} where the library is not loaded.
    """
    index = device_index(device)
    numbers = _library.filled(_library.Stats, "cenote_stats", index)
    if numbers and usage:
        numbers.update(_library.filled(_library.Usage, "cenote_usage", index))
    if numbers.get("limit_bytes") == _NO_LIMIT:
        numbers["limit_bytes"] = None
    return numbers


def reset_peaks(device=None):
    """From now on the peaks of a device are those from here. Whether it is done."""
    return _call("cenote_reset_peaks", device_index(device))


def trim():
    """Gives back to the driver what nobody has, on all devices. Returns the bytes; 0 where the library is not loaded."""
    release = _library.function("cenote_trim")
    return release() if release else 0


def mark(name=None):
    """Says that a step of the program begins."""
    begin = _library.function("cenote_mark")
    if begin:
        begin(None if name is None else str(name).encode(errors="replace"))


def limit(bytes, device=None):
    """Sets the bytes that may be taken from the driver on a device; 0 or None for no limit. Whether it is done: CUDA must be initialised."""
    most = int(bytes or 0)
    if most < 0:
        raise ValueError(f"no limit of {most} bytes")
    return _call("cenote_set_limit", device_index(device), most)


def dump(path=None):
    """Writes the report now: to a file, which is replaced, or to where the reports of this process go.

    Returns the file's path; None where nothing was written: the library is not preloaded, or CUDA was not used yet.
    """
    write = _library.function("cenote_dump")
    if write is None:
        return None
    written = ctypes.create_string_buffer(_LONGEST_PATH)
    code = write(None if path is None else os.fsencode(path), written, len(written))
    return os.fsdecode(written.value) if code == _library.OK else None


def on_oom(callback):
    """Has `callback(device, size)` called before a request is refused; None for no more.

    It may free memory: true says that it did, and the request is tried again. An exception in it is printed and counts as false. It is
    called on the thread that allocates. Returns whether it is set.
    """
    place = _library.function("cenote_on_oom")
    if place is None:
        return False
    _callbacks.append(_library.OomCallback(0) if callback is None else _guarded(callback))
    place(_callbacks[-1], None)
    return True


def _guarded(callback):
    def call(device, size, _user):
        try:
            return 1 if callback(device, size) else 0
        except BaseException:
            print("cenote: the callback of on_oom failed:", file=sys.stderr)
            traceback.print_exc()
            return 0

    if len(_callbacks) == 0:
        # A thread that allocates after the interpreter's end must not come back into it.
        atexit.register(on_oom, None)
    return _library.OomCallback(call)


def _call(name, *arguments):
    called = _library.function(name)
    return called is not None and called(*arguments) == _library.OK


def device_index(device):
    """The ordinal of a device as PyTorch names them: 1, "cuda:1", a torch.device. None is the current one."""
    index = getattr(device, "index", None) if not isinstance(device, (int, str)) else device
    if isinstance(index, str):
        index = int(index.partition(":")[2]) if ":" in index else None
    if index is not None:
        return index
    torch = sys.modules.get("torch")
    is_ready = torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized()
    return torch.cuda.current_device() if is_ready else 0
