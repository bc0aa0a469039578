"""Workflows by registered name, by file, or by module."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from verl_srpo.rollout.agent import Agent, no_such, override
from verl_srpo.rollout.errors import DefinitionError
from verl_srpo.rollout.workflow import Workflow

_BUILT_IN = "verl_srpo.workflows"  # importing it registers what the package brings
_WORKFLOWS: dict[str, type[Workflow]] = {}
W = TypeVar("W", bound=type[Workflow])


def register_workflow(name: str) -> Callable[[W], W]:
    """Class decorator: make a workflow known under `name`, by custom `family/name`."""

    def decorate(cls: W) -> W:
        if not (inspect.isclass(cls) and issubclass(cls, Workflow)):
            raise DefinitionError(f"register_workflow({name!r}): {cls!r} is not a subclass of Workflow")
        known = _WORKFLOWS.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DefinitionError(
                f"workflow {name!r} is already {known.__module__}.{known.__qualname__}; "
                f"register {cls.__module__}.{cls.__qualname__} under another name"
            )
        _WORKFLOWS[name] = cls
        return cls

    return decorate


def list_workflows() -> dict[str, type[Workflow]]:
    """Every registered workflow by name, the built-in ones included."""
    importlib.import_module(_BUILT_IN)
    return dict(sorted(_WORKFLOWS.items()))


def load_workflow(spec: str) -> type[Workflow]:
    """The class that `spec` names: `math/debate`, `path/to/file.py:Class` or `package.module:Class`.

    Raises:
        DefinitionError: no such name, file, module or class; it lists what is there.
    """
    place, colon, class_name = spec.rpartition(":")
    if not colon:
        if spec.endswith(".py"):
            raise DefinitionError(f"workflow {spec!r}: say which class, as in {spec}:MyWorkflow")
        known = list_workflows()
        if spec not in known:
            raise DefinitionError(f"{no_such(spec, known, 'workflow')}. Your own: path/to/file.py:Class")
        return known[spec]
    module = _from_file(spec, place) if place.endswith(".py") else _from_module(spec, place)
    cls = getattr(module, class_name, None)
    if not (inspect.isclass(cls) and issubclass(cls, Workflow)):
        there = [n for n, c in vars(module).items() if inspect.isclass(c) and issubclass(c, Workflow) and c != Workflow]
        found = "is not a subclass of Workflow" if cls is not None else no_such(class_name, there, "workflow class")
        raise DefinitionError(f"workflow {spec!r}: {class_name} in {place}: {found}")
    return cls


def build_workflow(
    spec: str, settings: Mapping[str, Any] | None = None, agents: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Workflow, tuple[Agent, ...]]:
    """An instance of the workflow that `spec` names, and its roster with the settings of `srpo.agents` applied.

    Raises:
        DefinitionError: as `load_workflow`; a setting that the workflow does not take; an agent that it lacks.
    """
    cls = load_workflow(spec)
    settings = dict(settings or {})
    parameters = inspect.signature(cls).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in settings:
            if key not in parameters:
                raise DefinitionError(f"srpo.workflow_kwargs.{key}: {spec}: {no_such(key, parameters, 'setting')}")
    try:
        workflow = cls(**settings)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"workflow {spec!r} with workflow_kwargs={settings}: {error}") from error
    return workflow, override(workflow.agents, agents)


def _from_file(spec: str, place: str) -> ModuleType:
    path = Path(place).expanduser()
    if not path.is_file():
        raise DefinitionError(f"workflow {spec!r}: there is no file {path} (looked in {Path.cwd()})")
    path = path.resolve()
    # the name is a function of the path alone, so that every process agrees on the class
    name = f"srpo_workflow_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DefinitionError(f"workflow {spec!r}: {path} fails on import: {type(error).__name__}: {error}") from error
    return module


def _from_module(spec: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ImportError as error:
        raise DefinitionError(f"workflow {spec!r}: cannot import module {place!r}: {error}") from error
