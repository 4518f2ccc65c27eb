"""Without the library and without PyTorch everything does nothing, and says so by what it returns."""

import unittest
import warnings
from unittest import mock

import package  # noqa: F401

import cenote
import cenote.torch


class Alone(unittest.TestCase):
    def setUp(self):
        without = mock.patch.dict("sys.modules", {"torch": None})
        without.start()
        self.addCleanup(without.stop)

    def test_the_library(self):
        self.assertFalse(cenote.is_loaded())
        self.assertIsNone(cenote.library_version())
        self.assertEqual(cenote.stats(), {})
        self.assertEqual(cenote.trim(), 0)
        self.assertIsNone(cenote.dump())
        self.assertIsNone(cenote.dump("/nowhere/report.json"))
        self.assertIsNone(cenote.mark("step"))
        self.assertIs(cenote.limit(1 << 30), False)
        self.assertIs(cenote.reset_peaks(), False)
        self.assertIs(cenote.on_oom(print), False)
        self.assertIs(cenote.on_oom(None), False)

    def test_pytorch(self):
        self.assertIsNone(cenote.torch.fit_batch(lambda batch: None, 1, 8))
        self.assertEqual(cenote.torch.all_ranks(), {})
        self.assertIs(cenote.torch.limit(1 << 30), False)
        with cenote.torch.switch() as left:
            pass
        self.assertEqual((left.bytes, left.released, left.holders, left.unexplained), (0, 0, [], 0))

    def test_the_reason_is_said_once(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertIs(cenote.torch.enable(), False)
            self.assertIs(cenote.torch.enable(), False)
        self.assertEqual([str(each.message) for each in said], ["PyTorch keeps its own allocator: there is no PyTorch for CUDA here"])


class Devices(unittest.TestCase):
    def test_names(self):
        device = mock.Mock(index=2)
        self.assertEqual([cenote.device_index(each) for each in (None, 1, "cuda:3", "cuda", device)], [0, 1, 3, 0, 2])


if __name__ == "__main__":
    unittest.main()
