"""The simulated driver's own functions, for tests that want work of a known length, or to know what the driver was asked."""

import ctypes

_library = ctypes.CDLL("libcuda.so.1")
_library.simcuda_kernel.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
_library.simcuda_calls.restype = ctypes.c_uint64
_library.simcuda_violations.restype = ctypes.c_uint64


def work(stream, microseconds, tensor, value=-1):
    """A kernel in `stream` that writes the byte `value` to all of the tensor, or reads it (-1)."""
    size = tensor.numel() * tensor.element_size()
    code = _library.simcuda_kernel(stream.cuda_stream, microseconds, tensor.data_ptr(), size, value)
    assert code == 0, f"the driver refused the kernel: {code}"


def calls(name):
    """How often the driver was called under this name."""
    return _library.simcuda_calls(name.encode())


def violations():
    """How often this process broke the driver's rules."""
    return _library.simcuda_violations()
