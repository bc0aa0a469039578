"""The examples in the docstrings of the core."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import verl_srpo.core

MODULES = [module.name for module in pkgutil.iter_modules(verl_srpo.core.__path__, "verl_srpo.core.")]


def test_public_functions_have_examples():
    finder = doctest.DocTestFinder()
    with_examples = {
        test.name.rsplit(".", 1)[-1]
        for name in MODULES
        for test in finder.find(importlib.import_module(name), name)
        if test.examples
    }
    assert {
        "member_log_ratio",
        "set_log_ratio",
        "event_weights",
        "set_relative_advantages",
        "srpo_loss",
        "pack_mini_batches",
        "pack_micro_batches",
    } <= with_examples


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    result = doctest.testmod(importlib.import_module(name), extraglobs={"torch": torch})
    assert result.failed == 0
