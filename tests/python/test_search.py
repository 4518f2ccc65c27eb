"""How many trials the search for a batch takes, on made-up memory."""

import unittest

import package  # noqa: F401

from cenote.torch.fit import Search
from cenote.torch.ranks import imbalance_of

MIB = 1 << 20


def search(peak, lo, hi, most, usable=None, first=0, exact=False):
    """The batch that is found, and the trials. `peak` gives bytes, of which `usable` can be had though `most` seem to be."""
    usable = most if usable is None else usable
    found, trials = Search(lo, hi, most, exact), []
    batch = found.next()
    while batch is not None:
        settled = bool(trials) or not first
        need = peak(batch) - (0 if trials else first)
        trials.append(batch)
        found.saw(batch, need if need <= usable else None, settled)
        batch = found.next()
    return found.good, trials


class Batches(unittest.TestCase):
    def test_a_line_takes_three_trials(self):
        self.assertEqual(search(lambda n: 100 * MIB + n * 7 * MIB, 4, 10_000, 8192 * MIB), (1156, [4, 8, 1156]))

    def test_one_more_where_it_has_to_be_exact(self):
        found = search(lambda n: 100 * MIB + n * 7 * MIB, 4, 10_000, 8192 * MIB, exact=True)
        self.assertEqual(found, (1156, [4, 8, 1156, 1157]))

    def test_all_that_is_asked_for_fits(self):
        self.assertEqual(search(lambda n: n * MIB, 1, 64, 8192 * MIB), (64, [1, 2, 64]))
        self.assertEqual(search(lambda n: 5 * MIB, 3, 3, 8192 * MIB), (3, [3]))
        self.assertEqual(search(lambda n: 5 * MIB, 1, 1000, 8192 * MIB), (1000, [1, 2, 1000]))

    def test_nothing_fits(self):
        self.assertEqual(search(lambda n: n * MIB, 16, 64, 10 * MIB), (0, [16]))

    def test_memory_that_can_not_be_had(self):
        for usable, most in ((7999, 8), (7900, 9), (7000, 13)):
            found, trials = search(lambda n: n * MIB, 1, 100_000, 8000 * MIB, usable * MIB)
            self.assertLessEqual(len(trials), most)
            self.assertTrue(usable * 0.996 <= found <= usable, (usable, found))
            found, trials = search(lambda n: n * MIB, 1, 100_000, 8000 * MIB, usable * MIB, exact=True)
            self.assertLess(len(trials), 20)
            self.assertEqual(found, usable)

    def test_the_first_step_lies_beside_the_line(self):
        found, trials = search(lambda n: 900 * MIB + n * MIB, 1, 100_000, 8000 * MIB, first=600 * MIB)
        self.assertEqual((found, trials), (7100, [1, 2, 4, 7100]))

    def test_curves(self):
        for peak in (lambda n: n * n * MIB, lambda n: int(n**0.5 * 100 * MIB), lambda n: -(-n // 8) * 80 * MIB):
            for most in (100 * MIB, 999 * MIB, 4000 * MIB):
                best = max(n for n in range(1, 3001) if peak(n) <= most)
                found, trials = search(peak, 1, 3000, most)
                self.assertLess(len(trials), 25)
                self.assertTrue(best * 0.996 - 8 <= found <= best)
                found, trials = search(peak, 1, 3000, most, exact=True)
                self.assertLess(len(trials), 30)
                self.assertEqual(found, best)

    def test_the_second_does_not_fit(self):
        found, trials = search(lambda n: n * MIB, 100, 1000, 170 * MIB)
        self.assertEqual((found, trials), (170, [100, 200, 150, 170]))

    def test_an_empty_range(self):
        for lo, hi in ((0, 4), (5, 4)):
            with self.assertRaises(ValueError):
                Search(lo, hi, MIB)


class Ranks(unittest.TestCase):
    def test_the_fullest(self):
        ranks = [{"rank": 0, "bytes": 10}, {"rank": 1, "bytes": 40}, {"rank": 2, "bytes": 10}]
        self.assertEqual(imbalance_of(ranks, "bytes"), {"max": 40, "rank": 1, "mean": 20, "ratio": 2})
        self.assertEqual(imbalance_of([{"rank": 0, "bytes": 0}], "bytes")["ratio"], 1)


if __name__ == "__main__":
    unittest.main()
