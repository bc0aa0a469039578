"""The guide names every option of the three commands, and none that does not exist."""

import argparse
import re
from pathlib import Path

import pytest

from verl_srpo.evaluation import command as eval_command
from verl_srpo.lab import command as lab_command
from verl_srpo.reports import command as report_command

GUIDE = Path(__file__).parents[2] / "docs" / "evaluation.md"


@pytest.mark.parametrize(
    ("section", "command"), [("eval", eval_command), ("report", report_command), ("lab", lab_command)]
)
def test_the_guide_and_the_parser_have_the_same_options(section, command):
    subparsers = argparse.ArgumentParser().add_subparsers()
    command.add_parsers(subparsers)
    options = {option for action in subparsers.choices[section]._actions for option in action.option_strings}
    text = re.search(rf"^## {section}$(.*?)(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[1]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named == options - {"-h", "--help"}
