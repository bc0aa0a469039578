"""The scripts live beside the package, not in it."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture
def prepare(tmp_path, capsys):
    """Runs a preparation script's main; returns (manifest, printed lines)."""
    from data_preprocess import prepare_math, prepare_search
    from data_preprocess.prepare import main

    def run(script: str, *arguments: object, expect: int = 0):
        module = {"math": prepare_math, "search": prepare_search}[script]
        out = tmp_path / "out"
        sets = prepare_search.SEARCH_SETS if script == "search" else ()
        assert main(module.TASK, "", [*map(str, arguments), "--out", str(out)], sets) == expect
        printed = capsys.readouterr()
        if expect:
            return printed.err
        return json.loads((out / "manifest.json").read_text()), printed.out

    run.out = tmp_path / "out"
    return run
