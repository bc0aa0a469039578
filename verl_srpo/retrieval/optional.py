"""Imports of packages that come with the `search` extra, with an error that names the extra."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_extra(module: str) -> ModuleType:
    """Import `module`, or raise ImportError saying how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'retrieval needs {module} ({error}): pip install "verl-srpo[search]"') from error
