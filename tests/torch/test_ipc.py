"""Tensors between processes, with the adapter on both sides or on one, and between devices. Needs the library preloaded."""

import gc
import os
import time
import unittest

# Before the driver is initialised, here and in the children, which import this module anew.
os.environ["CENOTE_CONF"] = os.environ.get("CENOTE_PEER_CONF", "torch:adapter")
os.environ.setdefault("CENOTE_CACHE_DIR", os.path.join(os.environ["CENOTE_STAGE"], "torch-cache"))

import torch
import torch.multiprocessing as multiprocessing

import simulator

MIB = 1 << 20
PATIENCE = 120


def setUpModule():
    if "libcenote" not in os.environ.get("LD_PRELOAD", ""):
        raise unittest.SkipTest("the adapter needs the library preloaded")


def tearDownModule():
    let_go()


kept = None


def let_go():
    """Forgets what others have let go of."""
    global kept
    kept = None
    gc.collect()
    torch.cuda.ipc_collect()


def numbers(count, first=0):
    return torch.arange(first, first + count, dtype=torch.int32).cuda()


def consume(questions, answers):
    """Runs what it is asked for: (function, arguments), until None."""
    while True:
        try:
            question = questions.get()
            if question is None:
                break
            function, arguments = question
            answer = function(*arguments)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        question = arguments = None
        gc.collect()
        answers.put(answer)
    let_go()
    answers.put(simulator.violations())


def look(tensor):
    """The values, which are then other ones."""
    seen = tensor.cpu()
    tensor.copy_(seen + 1)
    torch.cuda.synchronize()
    return seen.clone().tolist()


def open_shared(shared):
    torch.cuda.init()
    return torch.UntypedStorage._new_shared_cuda(*shared).nbytes()


def addresses(*tensors):
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


def work_and_drop(tensor):
    """The tensor goes while work on another stream uses it."""
    stream = torch.cuda.Stream()
    unmapped = simulator.calls("cuMemUnmap")
    simulator.work(stream, 50_000, tensor, 7)
    del tensor
    gc.collect()
    return simulator.calls("cuMemUnmap") - unmapped


def backend():
    torch.cuda.init()
    return torch.cuda.get_allocator_backend()


def make(count):
    """A tensor of this process for the one that asks."""
    global kept
    kept = numbers(count, 5)
    return kept


def kept_values():
    return kept.cpu()[:4].tolist()


class Peer:
    """A second process, with the adapter or without."""

    def __init__(self, conf="torch:adapter"):
        context = multiprocessing.get_context("spawn")
        self.questions, self.answers = context.Queue(), context.Queue()
        self.process = context.Process(target=consume, args=(self.questions, self.answers))
        os.environ["CENOTE_PEER_CONF"] = conf
        self.process.start()
        del os.environ["CENOTE_PEER_CONF"]

    def ask(self, function, *arguments):
        self.questions.put((function, arguments))
        return self.answers.get(timeout=PATIENCE)

    def end(self):
        self.questions.put(None)
        violations = self.answers.get(timeout=PATIENCE)
        self.process.join(60)
        return violations, self.process.exitcode


class Between(unittest.TestCase):
    def setUp(self):
        self.peer = Peer()
        self.before = simulator.violations()

    def tearDown(self):
        self.assertEqual(self.peer.end(), (0, 0))
        self.assertEqual(simulator.violations(), self.before)

    def test_both_run_the_adapter(self):
        self.assertEqual((backend(), self.peer.ask(backend)), ("cenote", "cenote"))

    def test_tensors_of_all_sizes_arrive_and_come_back_changed(self):
        for count in (1, 250, 20_000, 300_000, 700_000):
            filler = numbers(100)
            tensor = numbers(count, count)
            self.assertEqual(self.peer.ask(look, tensor), list(range(count, 2 * count)))
            self.assertTrue(torch.equal(tensor.cpu(), torch.arange(count + 1, 2 * count + 1, dtype=torch.int32)))
            del filler

    def test_a_large_tensor_of_many_handles(self):
        held = [torch.empty(3 * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]
        del held[::2]
        tensor = torch.empty(150 * MIB, dtype=torch.uint8, device="cuda")
        ends = [tensor[:4096], tensor[-4096:]]
        for value, end in enumerate(ends):
            end.copy_(torch.full((4096,), value + 1, dtype=torch.uint8))
        self.assertEqual(self.peer.ask(look, ends[0]), [1] * 4096)
        self.peer.ask(look, ends[1])
        self.assertEqual(ends[0].cpu()[0], 2)

    def test_slices(self):
        tensor = numbers(10_000)
        self.assertEqual(self.peer.ask(look, tensor[123:130]), list(range(123, 130)))
        self.assertEqual(self.peer.ask(look, tensor.view(100, 100)[3, 5:8]), [305, 306, 307])
        self.assertEqual(tensor.cpu()[121:132].tolist(), [121, 122, *range(124, 131), 130, 131])

    def test_a_storage_that_is_sent_twice_is_one(self):
        tensor = numbers(1000)
        first, second = self.peer.ask(addresses, tensor, tensor[500:])
        self.assertEqual(first, second)
        neighbour = numbers(1000)
        first, second = self.peer.ask(addresses, tensor, neighbour)
        self.assertEqual(second - first, neighbour.data_ptr() - tensor.data_ptr(), "one mapping of their page")

    def test_the_other_direction(self):
        tensor = self.peer.ask(make, 1000)
        self.assertEqual(tensor.cpu().tolist(), list(range(5, 1005)))
        tensor.copy_(torch.zeros(1000, dtype=torch.int32))
        torch.cuda.synchronize()
        self.assertEqual(self.peer.ask(kept_values), [0] * 4)
        del tensor
        gc.collect()

    def test_memory_goes_to_others_once_the_consumer_is_done(self):
        torch.cuda.ipc_collect()
        before = torch.cuda.memory_allocated()
        tensor = numbers(MIB)
        self.assertEqual(len(self.peer.ask(look, tensor)), MIB)
        del tensor
        for _ in range(100):
            torch.cuda.ipc_collect()
            if torch.cuda.memory_allocated() == before:
                break
            time.sleep(0.05)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        torch.cuda.empty_cache()
        self.assertEqual(self.peer.ask(look, numbers(3)), [0, 1, 2])

    def test_a_tensor_stays_mapped_while_work_uses_it(self):
        self.assertEqual(self.peer.ask(work_and_drop, numbers(1000)), 0)

    def test_no_descriptor_stays(self):
        count = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731
        self.peer.ask(look, numbers(10))
        before = count()
        for _ in range(20):
            self.peer.ask(look, numbers(10))
        self.assertLessEqual(count(), before + 1)


class WithoutTheAdapter(unittest.TestCase):
    def test_a_native_consumer_refuses(self):
        peer = Peer("torch:off")
        self.assertEqual(peer.ask(backend), "native")
        tensor = numbers(1000)
        shared = tensor.untyped_storage()._share_cuda_()
        # PyTorch's own words for a handle that it does not know.
        self.assertIn("handle from a future version of torch", peer.ask(open_shared, shared))
        # Nobody received it: a tensor that is still lent at exit may crash PyTorch there, whatever the allocator.
        torch.UntypedStorage._release_ipc_counter(*shared[4:6], device=shared[0])
        self.assertEqual(peer.end(), (0, 0))

    def test_a_native_producer(self):
        peer = Peer("torch:off")
        tensor = peer.ask(make, 1000)
        self.assertEqual(tensor.cpu().tolist(), list(range(5, 1005)))
        del tensor
        gc.collect()
        self.assertEqual(peer.end(), (0, 0))


@unittest.skipIf(torch.cuda.device_count() < 2, "needs SIMCUDA_DEVICES=2")
class Devices(unittest.TestCase):
    def test_a_device_uses_the_memory_of_another(self):
        before = simulator.violations()
        there, here = torch.arange(1000.0).to("cuda:1"), torch.arange(1000.0).to("cuda:0")
        # What asks for peer access, in PyTorch: a copy between devices.
        self.assertTrue(torch.equal(there.to("cuda:0").cpu(), torch.arange(1000.0)))
        self.assertTrue(torch.equal(here.to("cuda:1").cpu(), torch.arange(1000.0)))
        later = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda:1")
        with torch.cuda.device(0):
            for tensor in (there, later):
                simulator.work(torch.cuda.current_stream(), 10, tensor, 1)
            torch.cuda.synchronize()
        self.assertEqual(simulator.violations(), before)


if __name__ == "__main__":
    unittest.main()
