"""The command from paths to output."""

import argparse
import csv
import io
import json

import pytest

from verl_srpo.evaluation.arguments import seeds_of_runs
from verl_srpo.evaluation.command import add_parsers

from .conftest import verl_rows


def run(*arguments):
    parser = argparse.ArgumentParser()
    add_parsers(parser.add_subparsers(required=True))
    args = parser.parse_args(["eval", *map(str, arguments)])
    return args.run(args)


@pytest.fixture
def validations(write):
    """Two runs with two data sets of three questions and two samples; team b is right more often."""
    for name, right in (("a", 1), ("b", 2)):
        lines = []
        for source in ("gsm8k", "hotpotqa"):
            for question in range(3):
                for session in range(2):
                    score = float(question < right or session == 0)
                    lines += verl_rows(
                        f"{name}{source}{question}",
                        session,
                        score,
                        ("draft", r"\boxed{1}"),
                        question=f"{source} {question}",
                        data_source=source,
                        team_tokens=50 * right,
                        mean_set_size=1.0,
                        events=2,
                    )
        path = write(f"{name}/val/10.jsonl", lines)
    return path.parents[2]


def test_json_has_the_hand_computed_numbers(validations, capsys):
    assert run(validations / "a/val", validations / "b/val", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    a, b = result["runs"]
    assert (a["name"], b["name"]) == ("a/val", "b/val")
    assert a["macro"]["metrics"]["avg"]["mean"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert b["macro"]["metrics"]["avg"]["mean"] == pytest.approx((1 + 1 + 0.5) / 3)
    assert a["data_sets"]["gsm8k"]["questions"] == 3
    assert a["costs"]["all"]["calls"]["mean"] == 2.0
    assert result["comparisons"][0]["differences"]["avg"]["macro"]["difference"] == pytest.approx(1 / 6)
    assert result["budgets"]["solved"].keys() == {"a/val", "b/val"}


def test_the_table_names_every_data_set_and_both_averages(validations, capsys):
    assert run(f"team={validations}/a/val") == 0
    out = capsys.readouterr().out
    for expected in ("team, step 10", "gsm8k", "hotpotqa", "macro", "micro", "66.7", "Avg@k", "Pass@k", "team tokens"):
        assert expected in out


def test_names_with_square_brackets_survive_the_terminal(write, capsys):
    run(write("x.jsonl", [{"data_source": "[bold]", "uid": "1", "score": 1}]))
    assert "[bold]" in capsys.readouterr().out


def test_markdown_and_csv(validations, capsys):
    run(validations / "a/val", "--markdown")
    assert "| gsm8k | 3 | 2 | 66.7" in capsys.readouterr().out
    run(validations / "a/val", "--csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    values = {(row["data_source"], row["metric"]): row["value"] for row in rows}
    assert float(values["gsm8k", "avg"]) == pytest.approx(2 / 3)
    assert float(values["gsm8k", "pass@1"]) == pytest.approx(2 / 3)


def test_seeds_are_averaged_under_one_name(validations, capsys):
    assert run(f"team={validations}/*/val", "--json") == 0
    (team,) = json.loads(capsys.readouterr().out)["runs"]
    assert team["seeds"] == 2
    assert team["macro"]["metrics"]["avg"]["seeds"] == pytest.approx([2 / 3, 5 / 6])


def test_an_unusable_file_is_said_and_the_rest_evaluated(validations, write, capsys):
    empty = write("empty.jsonl", [])
    assert run(validations / "a/val", empty) == 1
    captured = capsys.readouterr()
    assert f"{empty}: the file is empty" in captured.err.replace("\n", "")
    assert "gsm8k" in captured.out


def test_nothing_usable_is_an_error(write, capsys):
    assert run(write("foreign.jsonl", ['{"a": 1}\n'])) == 2
    captured = capsys.readouterr()
    assert "no line can be evaluated" in captured.err
    assert captured.out == ""


def test_an_unknown_baseline_is_named(validations, capsys):
    assert run(validations / "a/val", validations / "b/val", "--baseline", "c") == 2
    assert "--baseline c: no such run; there are a/val, b/val" in capsys.readouterr().err


def test_the_baseline_may_be_any_run(validations, capsys):
    run(f"a={validations}/a/val", f"b={validations}/b/val", "--baseline", "b", "--json")
    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (comparison["baseline"], comparison["candidate"]) == ("b", "a")
    assert comparison["differences"]["avg"]["macro"]["difference"] == pytest.approx(-1 / 6)


def test_arguments_name_and_group_runs(tmp_path):
    for name in ("x-1", "x-2", "y"):
        (tmp_path / name).mkdir()
    (tmp_path / "odd=name,1").mkdir()
    x1, x2, y, odd = (tmp_path / name for name in ("x-1", "x-2", "y", "odd=name,1"))
    assert seeds_of_runs([f"x={tmp_path}/x-*", str(y)]) == {"x": [x1, x2], "y": [y]}
    assert seeds_of_runs([f"x={x1}", f"x={x2}"]) == {"x": [x1, x2]}
    assert seeds_of_runs([f"{x1},{x2}"]) == {"x-1": [x1, x2]}
    assert seeds_of_runs([str(x1), str(y)], one_run=True) == {"x-1": [x1, y]}
    assert seeds_of_runs([str(odd)]) == {"odd=name,1": [odd]}
