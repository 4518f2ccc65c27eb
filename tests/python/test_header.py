"""The structs and functions of the package are those of include/cenote.h, and its version is the library's."""

import ctypes
import re
import unittest

import package

import cenote
from cenote import _library

HEADER = re.sub(r"/\*.*?\*/", "", (package.ROOT / "include" / "cenote.h").read_text(), flags=re.DOTALL)
TYPES = {
    "size_t": ctypes.c_size_t,
    "uint64_t": ctypes.c_uint64,
    "struct cenote_count": _library.Count,
    "int": ctypes.c_int,
    "void": None,
    "const char *": ctypes.c_char_p,
    "char *": ctypes.c_char_p,
    "void *": ctypes.c_void_p,
    "struct cenote_stats *": ctypes.POINTER(_library.Stats),
    "struct cenote_usage *": ctypes.POINTER(_library.Usage),
    "cenote_oom_fn": _library.OomCallback,
}


def fields_of(struct):
    body = re.search(r"struct %s \{(.*?)\};" % struct, HEADER, re.DOTALL).group(1)
    return [(name, TYPES[kind.strip()]) for kind, name in re.findall(r"([\w ]+?)\s+(\w+);", body)]


def typed(declaration):
    kind, star, _ = re.fullmatch(r"(.*?)\s*(\*?)\s*(\w+)", declaration.strip(), re.DOTALL).groups()
    return TYPES[f"{kind} *" if star else kind]


def signature_of(name):
    returned, arguments = re.search(r"^([\w ]+\*?) ?%s\(([^)]*)\);" % name, HEADER, re.MULTILINE).groups()
    names = [] if arguments == "void" else arguments.split(",")
    return TYPES[returned.strip()], [typed(argument) for argument in names]


class Header(unittest.TestCase):
    def test_structs(self):
        for name, struct in (("count", _library.Count), ("stats", _library.Stats), ("usage", _library.Usage)):
            self.assertEqual(list(struct._fields_), fields_of(f"cenote_{name}"), name)

    def test_functions(self):
        for name, signature in _library.SIGNATURES.items():
            self.assertEqual(signature, signature_of(name), name)

    def test_version(self):
        manifest = (package.ROOT / "Cargo.toml").read_text()
        version = re.search(r'^version = "(.*)"', manifest, re.MULTILINE).group(1)
        self.assertEqual(cenote.__version__, version)
        self.assertIn(f'version = "{version}"', (package.SOURCE / "pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
