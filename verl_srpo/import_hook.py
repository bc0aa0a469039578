"""Runs a function on a module right after that module's own import, wherever and whenever it is imported."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds its one module by the other finders and adds a step to its loader; costs nothing until then."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]):
        self.name = name
        self.action = action
        self._searching = False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name or self._searching:
            return None
        self._searching = True  # the search below comes back here
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return None
        run_module = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run_module(module)
            self.action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this loader serves this module alone
        return spec


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Calls `action(module)` after module `name` has been imported: at once if it is there already.

    Registering the same name and function twice has the effect of registering it once.
    """
    if name in sys.modules:
        action(sys.modules[name])
        return
    for finder in sys.meta_path:
        if isinstance(finder, _AfterImport) and finder.name == name and finder.action is action:
            return
    sys.meta_path.insert(0, _AfterImport(name, action))
