"""The largest batch that fits.

Peak memory grows with the batch along a line, nearly. So two small batches tell where the line meets the memory that can be had, and
that batch is tried. What holds less well than the line, such as holes between blocks, shows as a failure there: then the search goes
down from it in growing strides and halves what is left.
"""

import traceback

from .memory import Memory, with_device

# Of a batch that failed: how far below it the next is tried.
FIRST_STRIDE = 1 / 64
# Share of a batch that is not worth another trial, unless the answer has to be exact.
NEAR = 1 / 256
SIGNS = ("out of memory", "std::bad_alloc", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")


def fit_batch(step, lo, hi, device=None, exact=False):
    """The largest batch size from `lo` to `hi` for which `step(batch)` runs in the memory of the device.

    The answer was run. It may be up to 0.4 % below the largest, and where memory grows in steps or along a curve a step below: `exact`
    goes on until the next one fails. 0 where `lo` does not run; None where there is no PyTorch with a CUDA device. Other errors than out of memory
    pass through. What `step` itself keeps, such as gradients and the optimiser's state, stays; peaks of the statistics start anew.
    """
    torch = with_device()
    if torch is None:
        return None
    trials = Trials(Memory(torch, device), step)
    search = Search(lo, hi, trials.memory.most(), exact)
    batch = search.next()
    while batch is not None:
        search.saw(batch, *trials.run(batch))
        batch = search.next()
    return search.good


class Search:
    """Which batch to try next. No CUDA in here."""

    def __init__(self, lo, hi, most, exact=False):
        if not 0 < lo <= hi:
            raise ValueError(f"no batch from {lo} to {hi}")
        self.lo, self.most, self.exact = lo, most, exact
        # The largest that runs, the smallest that does not, and peaks of those that ran.
        self.good, self.bad = 0, hi + 1
        self.points = []
        # How far below a failure the next trial is; 0 before the first.
        self.stride = 0
        self.is_first = True

    def next(self):
        if self.good == 0:
            return self.lo if self.is_first else None
        if self.bad - self.good <= self.near():
            return None
        middle = (self.good + self.bad) // 2
        if len(self.points) < 2:
            return middle if self.stride else min(2 * self.good, self.bad - 1)
        predicted = self.predicted()
        if predicted >= self.bad:
            return max(middle, self.bad - self.stride) if self.stride else self.bad - 1
        if predicted > self.good:
            return predicted
        return self.good + 1 if self.exact else None

    def near(self):
        """How close the smallest that fails may be to the largest that runs. What was not tried is no failure."""
        return 1 if self.exact or not self.stride else max(1, int(self.good * NEAR))

    def saw(self, batch, peak, is_settled):
        """A batch ran with a peak, or did not: then it is None. Not settled: it left memory behind that was not there before."""
        was_first, self.is_first = self.is_first, False
        if peak is None:
            self.bad = batch
            self.stride = 2 * self.stride if self.stride else max(1, int(batch * FIRST_STRIDE))
            return
        self.good = batch
        # The first step makes what later ones find, an optimiser's state for one: its peak lies beside the line.
        if is_settled or not was_first:
            self.points.append((batch, peak))

    def predicted(self):
        """The batch at which the line through the two largest meets what can be had."""
        (less, low), (more, high) = self.points[-2:]
        if high <= low:
            return self.bad
        return more + (self.most - high) * (more - less) // (high - low)


class Trials:
    """Runs of the step, each of which starts and ends clean."""

    def __init__(self, memory, step):
        self.memory, self.step = memory, step

    def run(self, batch):
        """The peak, or None where memory ran out; and whether as much is allocated as before."""
        memory = self.memory
        memory.clean()
        before = memory.allocated()
        memory.reset_peaks()
        try:
            self.step(batch)
            memory.torch.cuda.synchronize(memory.device)
            peak = memory.allocated_peak()
        except Exception as error:
            if not is_out_of_memory(memory.torch, error):
                raise
            forget(error)
            peak = None
        memory.clean()
        return peak, memory.allocated() == before


def is_out_of_memory(torch, error):
    """Whether an exception says that device memory ran out; CUDA's libraries and pluggable allocators say it in words only."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def forget(error):
    """Lets go of what the frames of an exception and of its causes hold."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
