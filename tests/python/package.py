"""Finds the package: the one that is installed, or the source in this repository."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "python"
STAGE = Path(os.environ.get("CENOTE_STAGE", ROOT / "target" / "stage")).absolute()

if importlib.util.find_spec("cenote") is None:
    sys.path.insert(0, str(SOURCE))
