"""Which allocator PyTorch has.

The adapter is PyTorch's allocator class over cenote's engine: statistics, graphs, pools and out-of-memory errors are PyTorch's. It
needs the library preloaded. Without that there is PyTorch's pluggable allocator, which can less: docs/c-api.md says what.
"""

import ctypes
import os
import warnings

import cenote

from .. import _library
from .memory import CANNOT_SAY, backend, pytorch

_HOOKS = {
    "set_init_fn": "cenote_torch_init",
    "set_reset_fn": "cenote_torch_reset",
    "set_memory_fraction_fn": "cenote_torch_memory_fraction",
    "set_base_alloc_fn": "cenote_torch_base_alloc",
    "set_record_stream_fn": "cenote_torch_record_stream",
    "set_begin_allocate_to_pool": "cenote_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "cenote_torch_end_allocate_to_pool",
    "set_release_pool": "cenote_torch_release_pool",
}
_said = set()
_pluggable = None


def enable(library=None):
    """Makes sure that PyTorch takes its memory from cenote's engine. Whether it does; why not is said in a warning, once.

    With the library preloaded this puts the adapter in, at any time. Else `library`, or the one that CENOTE_LIBRARY names or that lies
    with the command `cenote`, becomes PyTorch's pluggable allocator, before the first use of CUDA only.
    `torch.cuda.get_allocator_backend()` tells which of the two it is: "cenote" or "pluggable".
    """
    torch = pytorch()
    if torch is None:
        reason = "there is no PyTorch for CUDA here"
    elif os.environ.get("CENOTE_DISABLE", "0") not in ("", "0"):
        reason = "CENOTE_DISABLE is set"
    elif _pluggable or backend(torch) == "cenote":
        reason = None
    elif _library.is_preloaded():
        reason = _install(torch)
    else:
        reason = _plug(torch, library or _library.find())
    if reason and reason not in _said:
        _said.add(reason)
        warnings.warn(f"PyTorch keeps its own allocator: {reason}", RuntimeWarning, stacklevel=2)
    return reason is None


def limit(bytes, device=None):
    """As `cenote.limit`, after initialising CUDA."""
    torch = pytorch()
    if cenote.is_loaded() and torch and torch.cuda.is_available():
        torch.cuda.init()
    return cenote.limit(bytes, device)


def _install(torch):
    """Puts the adapter in; what it can't be built with is said by the library. None, or why PyTorch's own allocator stays."""
    install = _library.function("cenote_torch_adapter")
    code = install() if install else None
    if code == _library.OK:
        return None
    if code == _library.INVALID_VALUE:
        return "the environment forbids it: mode:off in CENOTE_CONF, or PYTORCH_NO_CUDA_MEMORY_CACHING"
    return _plug(torch, _library.find())


def _plug(torch, path):
    """Makes a library's functions PyTorch's pluggable allocator. None, or why they are not."""
    global _pluggable
    if path is None:
        return "libcenote.so is not preloaded; run the program by `cenote run --torch`, or name the library"
    if torch.cuda.is_initialized():
        return "CUDA is in use already, and the adapter can't be put in; call enable() first, or use `cenote run --torch`"
    if backend(torch) == CANNOT_SAY:
        return "it has a pluggable allocator already"
    try:
        library = _library.open_library(path)
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(path), "cenote_torch_alloc_or_throw", "cenote_torch_free")
        inner = allocator.allocator()
        for setter, name in _HOOKS.items():
            getattr(inner, setter)(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        torch.cuda.memory.change_current_allocator(allocator)
    except (OSError, AttributeError, RuntimeError) as error:
        return f"{path}: {error}"
    _pluggable = allocator
    return None
