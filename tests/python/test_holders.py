"""The names by which a program reaches an object."""

import gc
import unittest
import weakref

import package  # noqa: F401

from cenote.torch.holders import names


class Thing:
    pass


class Module:
    def __init__(self, thing):
        self._modules = {}
        self._parameters = {"weight": thing}


KEPT = {}


class Names(unittest.TestCase):
    def test_a_variable(self):
        mine = Thing()
        self.assertEqual(names(mine), ["mine in test_a_variable()"])

    def test_a_parameter_of_a_model(self):
        model = Module(Thing())
        outer = Module(None)
        outer._modules["0"] = model
        thing = weakref.ref(model._parameters["weight"])
        del model
        self.assertEqual(names(thing()), ["outer.0.weight in test_a_parameter_of_a_model()"])

    def test_a_global(self):
        KEPT["losses"] = [1, Thing()]
        self.assertEqual(names(KEPT["losses"][1]), [f"{__name__}.KEPT['losses'][1]"])

    def test_a_closure(self):
        def closed(thing):
            return lambda: thing

        function = closed(Thing())
        self.assertIn("closed.<locals>.<lambda>", names(function())[0])

    def test_nothing_is_kept_alive(self):
        thing, other = Thing(), Thing()
        gone = weakref.ref(thing)
        self.assertTrue(names(other))
        del thing
        gc.collect()
        self.assertIsNone(gone())

    def test_what_locals_gave_stays(self):
        thing = Thing()
        given = locals()
        names(thing)
        self.assertIs(given["thing"], thing)


if __name__ == "__main__":
    unittest.main()
