"""The report from folders to page."""

import argparse
import base64
import json
import re

import pytest

from verl_srpo.reports.command import add_parsers

from .conftest import log_lines


def report(tmp_path, *arguments):
    parser = argparse.ArgumentParser()
    add_parsers(parser.add_subparsers(required=True))
    args = parser.parse_args(["report", *map(str, arguments), "--out", str(tmp_path / "out")])
    return args.run(args), tmp_path / "out" / "report.html"


TRANSCRIPT = {
    "workflow": "math/debate",
    "question": "six times seven?",
    "answer": "42",
    "outcome_reward": 1.0,
    "dropped": "",
    "events": [
        {
            "event": 0,
            "set_size": 2,
            "reward": -0.1,
            "return": 0.9,
            "removed": "",
            "members": [
                {"output": "alice[0]", "text": "<script>alert(1)</script>", "response_tokens": 3, "truncated": True},
                {"output": "bob[0]", "text": "y" * 5000, "response_tokens": 9, "invalid": "no tag"},
            ],
        }
    ],
    "unconsumed": [{"output": "carol[0]", "text": "a draft"}],
}


def test_a_report_of_two_runs_with_seeds(make_run, tmp_path):
    runs = [
        make_run(f"srpo-seed{i}", log_lines(range(1, 7), reward=0.5 + 0.1 * i), f"seed: {i}\nlr: 1") for i in (1, 2)
    ]
    runs.append(make_run("grpo", log_lines(range(1, 5), sizes=(1,)), "seed: 1\nlr: 2"))
    status, path = report(tmp_path, *runs)
    page = path.read_text()
    assert status == 0
    assert "<title>srpo, grpo</title>" in page
    for expected in (
        "Training reward", "Validation: macro average", "Validation: minerva", "Set log-ratio by set size: srpo",
        "Clip fraction by set size: grpo", "Mean set size", "Gradient norm", "KL divergence", "Entropy by agent: srpo",
        "Response length by agent: grpo", "Rows and sets a step", "Dropped events by reason",
        "Time a step, by phase: srpo",
    ):  # fmt: skip
        assert f"<h3>{expected}</h3>" in page, expected
    assert "<td>lr</td><td>1</td><td>2</td>" in page


def test_the_page_needs_nothing_beside_it(make_run, tmp_path):
    _, path = report(tmp_path, make_run("r", log_lines([1, 2])))
    page = path.read_text()
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)", page)
    pictures = re.findall(r'<figure id="([^"]+)">.*?base64,([^"]+)"', page)
    assert len(pictures) > 10
    for name, data in pictures:
        assert base64.b64decode(data) == (path.parent / f"{name}.png").read_bytes()
        assert base64.b64decode(data)[:8] == b"\x89PNG\r\n\x1a\n"


def test_transcripts_are_shown_and_escaped(make_run, tmp_path):
    run = make_run("r", log_lines([1]))
    folder = run / "rollouts" / "transcripts"
    folder.mkdir(parents=True)
    (folder / "9.jsonl").write_text(json.dumps({**TRANSCRIPT, "question": "an old one"}) + "\n")
    (folder / "10.jsonl").write_text((json.dumps(TRANSCRIPT) + "\n") * 5 + '{"cut')
    _, path = report(tmp_path, run, "--transcripts", 2)
    page = path.read_text()
    assert page.count("six times seven?") == 2
    assert "an old one" not in page
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "event 0, K = 2, reward -0.1, return 0.9" in page
    assert "alice[0], 3 tokens, cut by its limit" in page
    assert "bob[0], 9 tokens, malformed: no tag" in page
    assert "(1000 more characters)" in page
    assert "consumed by no event, not trained on" in page


def test_a_validation_dump_stands_in_for_transcripts(make_run, tmp_path):
    run = make_run("r", log_lines([1]))
    (run / "validation").mkdir()
    rows = [
        {
            "input": f"q{task}",
            "output": f"said {task} {index}",
            "gts": "42",
            "score": 1.0,
            "step": 5,
            "uid": f"t{task}_0_{index}",
        }
        for task in range(3)
        for index in range(2)
    ]
    (run / "validation" / "5.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = report(tmp_path, run, "--transcripts", 2)[1].read_text()
    assert "score 1, truth 42" in page
    assert "said 1 1" in page
    assert "said 2 0" not in page


def test_a_stock_verl_run_has_what_it_logs(make_run, tmp_path):
    log = json.dumps({"step": 1, "data": {"critic/score/mean": 0.5, "actor/ppo_kl": 0.1, "timing_s/step": 2.0}}) + "\n"
    status, path = report(tmp_path, make_run("stock", log))
    page = path.read_text()
    assert status == 0
    assert "<h3>Training reward</h3>" in page
    assert "<h3>KL divergence</h3>" in page
    assert 'id="sets"' not in page


def test_a_run_that_has_just_begun(make_run, tmp_path):
    status, path = report(tmp_path, make_run("young", log_lines([1]) + '{"step": 2, "data": {"a"'))
    assert status == 0
    assert "cut off in the middle; still being written?" in path.read_text()


def test_an_unusable_run_is_said_and_the_rest_shown(make_run, tmp_path, capsys):
    status, path = report(tmp_path, make_run("good", log_lines([1, 2])), tmp_path / "absent")
    assert status == 1
    assert "absent: no such file or folder" in capsys.readouterr().err
    assert "absent: no such file or folder" in path.read_text()


def test_nothing_usable_writes_nothing(tmp_path, capsys):
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text("hello\n")
    status, path = report(tmp_path, foreign)
    assert status == 2
    assert "nothing to report on" in capsys.readouterr().err
    assert not path.exists()


def test_names_of_runs_can_not_leave_the_folder_or_break_the_page(make_run, tmp_path):
    run = make_run("r", log_lines([1, 2]))
    status, path = report(tmp_path, f"../<b>x={run}")
    assert status == 0
    assert "<title>../&lt;b&gt;x</title>" in path.read_text()
    assert {file.parent for file in path.parent.rglob("*.png")} == {path.parent}


@pytest.mark.parametrize("steps", [1, 25])
def test_every_chart_stands_any_length(make_run, tmp_path, steps):
    status, path = report(tmp_path, make_run("r", log_lines(range(1, steps + 1))))
    assert status == 0
    assert path.read_text().count("<figure") >= 12
