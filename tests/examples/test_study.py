"""The study's script repeats no finished run, and its table holds what the runs logged."""

import json
import os
import subprocess
import sys

import pytest

from tests.examples.scripts import ROOT

STUDY = ROOT / "examples" / "study"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "examples" / "quickstart")}

LAUNCHER = """#!/usr/bin/env bash
# in the place of a training run: notes it and writes what it would have logged
echo "$PRESET $SEED $STEPS ${MODEL:-none} $*" >> "$NOTES"
mkdir -p "$RUN"
[[ $PRESET == broken ]] && exit 1
for step in $(seq 1 "$STEPS"); do
    printf '{"step":%d,"data":{"srpo/outcome_reward/mean":0.%d%d,"actor/grad_norm":1}}\\n' "$step" "$SEED" "$step"
done > "$RUN/metrics.jsonl"
"""


def write_run(folder, rewards, validation=(0.2, 0.6)):
    folder.mkdir(parents=True)
    lines = [
        {"step": i + 1, "data": {"srpo/outcome_reward/mean": reward, "actor/grad_norm": 1.0 + 2 * (i % 2)}}
        for i, reward in enumerate(rewards)
    ]
    ends = [(0, validation[0]), (len(rewards), validation[1])]
    lines += [{"step": step, "data": {"val-core/arithmetic/acc/mean@1": value}} for step, value in ends]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_table(folder, *arguments):
    command = [sys.executable, STUDY / "table.py", f"math/debate={folder}", "--steps", "10", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def runs(tmp_path):
    for seed, shift in ((0, 0.0), (1, 0.2)):
        write_run(tmp_path / f"srpo-seed{seed}", [0.1 + shift] * 5 + [0.5 + shift] * 5, (0.2, 0.6 + shift))
        write_run(tmp_path / f"grpo-seed{seed}", [0.1] * 5 + [0.3] * 5)
    write_run(tmp_path / "grpo-seed2", [0.1] * 9)  # still running
    return tmp_path


def test_scores_by_hand(runs):
    rows = [line.split(" | ") for line in make_table(runs, "--presets", "srpo", "grpo", "gspo").strip().splitlines()]
    srpo, grpo = rows[2:]  # gspo has no runs, so no row
    assert srpo == ["| `srpo`", "0, 1", "0.200 ± 0.000", "0.700 ± 0.141", "0.600 ± 0.141", "0.400 ± 0.141",
                    "0.500 ± 0.000", " |"]  # fmt: skip
    assert grpo[1:6] == ["0, 1", "0.200 ± 0.000", "0.600 ± 0.000", "0.300 ± 0.000", "0.200 ± 0.000"]
    # differences of 0.1 and 0.3: mean 0.2, standard error 0.1, t(1) = 12.706
    assert grpo[-1] == "-0.200 [-1.471, +1.071] |"


def test_the_section_of_a_page_is_replaced(runs):
    page = runs / "page.md"
    page.write_text("# Evidence\n\nThe game.\n")
    make_table(runs, "--presets", "srpo", "--page", str(page))
    once = page.read_text()
    make_table(runs, "--presets", "srpo", "--page", str(page))
    assert page.read_text() == once
    assert once.startswith("# Evidence\n\nThe game.\n")
    assert once.count("## The same questions on the real stack") == once.count("| `srpo` | 0, 1 |") == 1


def test_a_finished_run_is_not_repeated_and_a_failed_one_is_named(tmp_path):
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    notes = tmp_path / "notes"
    variables = {"WORKFLOWS": "math/debate", "SEEDS": "0 1", "STEPS": "3", "OUT": str(tmp_path / "out")}
    variables |= {"LAUNCH": str(launcher), "NOTES": str(notes), "PRESETS": "srpo broken"}

    def study():
        notes.write_text("")
        done = subprocess.run(
            ["bash", STUDY / "run.sh", "data.seed=9"], env=os.environ | variables, capture_output=True, text=True
        )
        return done, [line.split()[:4] for line in notes.read_text().splitlines()]

    first, started = study()
    assert started == [[p, s, "3", "none"] for s in "01" for p in ("srpo", "broken")]
    assert first.returncode == 1
    assert "failed, see its train.log" in first.stderr and "broken-seed1" in first.stderr
    # rewards 0.01, 0.02, 0.03 and 0.11, 0.12, 0.13
    assert "| `srpo` | 0, 1 |  |  | 0.070 ± 0.071 |" in first.stdout
    assert (tmp_path / "out" / "math-debate" / "report" / "report.html").exists()
    _, again = study()
    assert again == [["broken", s, "3", "none"] for s in "01"]
