"""Living tensors, and by which names the program reaches them. Best effort: it asks Python's garbage collector."""

import gc
import inspect
import itertools
import sys
import types
import weakref

NAMES = 3
# Objects that are looked at for one tensor, so that a large program does not make a long search.
STEPS = 300
# What every allocator rounds up to.
UNIT = 512
# Before Python 3.13 `f_locals` is a copy that stays with the frame, and would keep alive what the function deletes. It is emptied, unless
# the function itself has it, by `locals()`: the references are then more than the frame's, ours, and the one that is passed to count.
OWN_REFERENCES = 3
# Dicts of torch.nn.Module whose keys are attributes of it.
OF_MODULES = ("_parameters", "_buffers", "_modules")


def tensors(torch, device):
    """The living CUDA tensors of a device, each with a weak reference to it."""
    for thing in gc.get_objects():
        # `type`, since `isinstance` asks proxies for their class, which may load something.
        if issubclass(type(thing), torch.Tensor) and thing.is_cuda and thing.device.index == device:
            yield thing, weakref.ref(thing)


def holders(torch, device, known, most):
    """Dicts of the tensors that are not among `known`, the largest first, `most` of them; and the bytes of all."""
    fresh = {}
    for tensor, _ in tensors(torch, device):
        reference = known.get(id(tensor))
        if reference is None or reference() is not tensor:
            # Views share their storage: it is counted once, under the first that is found.
            fresh.setdefault(_storage(tensor)[0], tensor)
    tensor = None
    largest = sorted(fresh.values(), key=lambda tensor: -_storage(tensor)[1])
    fresh.clear()
    explained = sum(-(-_storage(tensor)[1] // UNIT) * UNIT for tensor in largest)
    named = [_described(tensor, (id(largest),)) for tensor in itertools.islice(largest, most)]
    return named, explained


def _storage(tensor):
    """Where the memory of a tensor begins, and its bytes. Some kinds of tensors have no storage."""
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return id(tensor), 0


def _described(tensor, own):
    return {
        "type": type(tensor).__name__,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "bytes": _storage(tensor)[1],
        "names": names(tensor, own),
    }


def names(thing, own=()):
    """Names such as `serve.model.layers.0.weight`: from a variable that somebody has, down to the thing."""
    # Beside each other, and not in pairs: those would hold the things too.
    things, paths, found = [thing], [""], []
    seen = {id(things), id(thing), *own}
    at = 0
    while at < len(things) and len(seen) < STEPS and len(found) < NAMES:
        found += (name for name in _locals(things[at], paths[at]) if name not in found)
        is_end = True
        for holder in gc.get_referrers(things[at]):
            if id(holder) in seen or isinstance(holder, (types.FrameType, types.ModuleType)):
                continue
            seen.add(id(holder))
            root, step = _step(holder, things[at], paths[at])
            if root:
                found.append(root)
            elif step is not None:
                things.append(holder)
                paths.append(step)
            is_end = False
        holder = None
        if is_end and not found and paths[at]:
            found.append(f"a {type(things[at]).__qualname__}{paths[at]}")
        at += 1
    return found[:NAMES]


def _step(holder, thing, path):
    """The name of a thing that a holder has: one that is complete, or one that goes on from the holder."""
    if isinstance(holder, dict):
        module = sys.modules.get(holder.get("__name__")) if isinstance(holder.get("__name__"), str) else None
        keys = [key for key, value in list(holder.items()) if value is thing]
        if module is not None and vars(module) is holder and keys:
            return f"{holder['__name__']}.{keys[0]}{path}", None
        return None, f"[{keys[0]!r}]{path}" if keys else None
    if isinstance(holder, (list, tuple)):
        places = [index for index, each in enumerate(holder) if each is thing]
        return None, f"[{places[0]}]{path}" if places else None
    if isinstance(holder, types.FunctionType):
        return f"the closure or defaults of {holder.__qualname__}()", None
    if isinstance(holder, (types.GeneratorType, types.CoroutineType)):
        return f"a variable{path} of {holder.__qualname__}()", None
    if isinstance(holder, types.CellType):
        return None, path
    return None, _attribute(holder, thing, path)


def _attribute(holder, thing, path):
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return path
    if attributes is thing:
        # The path begins with a key of it, ['name']: an attribute of the holder.
        return _attribute_path(path)
    for key, value in list(attributes.items()):
        if value is thing:
            return _attribute_path(path) if key in OF_MODULES else f".{key}{path}"
    return path


def _attribute_path(path):
    """`['name'].rest` as an attribute: `.name.rest`. PyTorch shows what a module has in dicts as its attributes."""
    key, bracket, rest = path.partition("]")
    if not bracket or not key.startswith("['"):
        return path
    name = key[2:-1]
    return _attribute_path(rest) if name in OF_MODULES else f".{name}{rest}"


def _locals(thing, path):
    """The variables of running functions that are the thing."""
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            if frame.f_globals.get("__name__") not in (__name__, f"{__package__}.switch"):
                yield from _variables(frame, thing, path)
            frame = frame.f_back


def _variables(frame, thing, path):
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return
    variables = frame.f_locals
    for name in [name for name, value in variables.items() if value is thing]:
        yield f"{name}{path} in {frame.f_code.co_name}()"
    if isinstance(variables, dict) and sys.getrefcount(variables) <= OWN_REFERENCES:
        variables.clear()
