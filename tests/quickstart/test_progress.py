"""Metrics file, progress, plot and summary of the quickstart."""

import json
import os
import signal
import subprocess
import sys

import pytest
from metrics import Metrics, ends
from plot import draw
from watch import header, phase_of, step_line, summary

from tests.quickstart.conftest import QUICKSTART


def training_step(reward, spread, low, high):
    return {
        "srpo/outcome_reward/mean": reward,
        "timing_s/step": 2.5,
        **{f"srpo/k{size}/count": count for size, count in ((1, 64.0), (2, 64.0))},
        **{f"srpo/k{size}/log_ratio_std": spread * size for size in (1, 2)},
        **{f"srpo/k{size}/clip_low": low for size in (1, 2)},
        **{f"srpo/k{size}/clip_high": high for size in (1, 2)},
    }


ENTRIES = [
    (0, {"val-core/arithmetic/acc/mean@1": 0.3, "val-core/arithmetic/reward/mean@1": 9.0}),
    (1, training_step(0.4, 0.01, 0.0, 0.1)),
    (2, training_step(0.6, 0.02, 0.2, 0.1)),
    (2, {"val-core/arithmetic/acc/mean@1": 0.8, "val-core/arithmetic/reward/mean@1": 9.0}),
]
LINES = "".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in ENTRIES)


@pytest.fixture
def metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(LINES + '{"step": 3, "da')  # verl is just writing
    return Metrics.read(path)


def test_curves(metrics):
    assert metrics.reward() == [(1, 0.4), (2, 0.6)]
    assert metrics.validation() == [(0, 0.3), (2, 0.8)]
    assert metrics.set_sizes() == [1, 2]
    assert metrics.curve("srpo/k2/log_ratio_std") == [(1, 0.02), (2, 0.04)]
    assert metrics.clip_fraction(1) == [(1, 0.1), (2, pytest.approx(0.3))]


def test_a_run_without_metrics_yet_is_an_empty_one(tmp_path):
    assert Metrics.read(tmp_path / "metrics.jsonl").by_step == {}


def test_a_repeated_step_counts_once_with_its_last_values(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(LINES + json.dumps({"step": 2, "data": {"srpo/outcome_reward/mean": 0.7}}) + "\n")
    assert Metrics.read(path).reward() == [(1, 0.4), (2, 0.7)]


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [([1, 2, 3, 4, 5, 6], 2, (1.5, 5.5)), ([1, 2, 3], 3, (1, 3)), ([7], 3, (7, 7)), ([], 1, None)],
)
def test_ends_never_overlap(values, width, expected):
    assert ends(list(enumerate(values)), width) == expected


def test_the_summary_says_before_and_after(metrics):
    assert summary(metrics, 200.4) == "reward 0.40 -> 0.60, validation accuracy 0.30 -> 0.80 (2 steps, 200 s)"
    assert summary(Metrics(), 1) == "no metrics (0 steps, 1 s)"


def test_a_steps_line_names_every_set_size(metrics):
    line = step_line(metrics, 2, 30)
    assert line.split() == ["2/30", "0.600", "0.800", "64", "0.020", "30%", "64", "0.040", "30%", "2.5"]
    assert len(line) == len(header(metrics)) <= 80
    assert step_line(metrics, 0, 30).split()[:2] == ["0/30", "0.300"]  # validation only


def test_the_phase_is_the_latest_begun():
    assert phase_of("") == "starting Python"
    assert (
        phase_of("ray init kwargs: ...\n(TaskRunnerV1 pid=1) x\n(WorkerDict pid=2) y")
        == "loading the model for training"
    )


def test_the_plot_shows_all_curves(metrics, tmp_path, monkeypatch):
    import plot

    figures = []
    monkeypatch.setattr(plot.pyplot, "close", figures.append)  # keep it open to look at it
    draw(metrics, tmp_path / "training.png", "a title")
    assert (tmp_path / "training.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = [[line.get_xydata().tolist() for line in axes.lines] for axes in figures[0].axes]
    monkeypatch.undo()
    plot.pyplot.close(figures[0])
    assert drawn[0] == [[[1, 0.4], [2, 0.6]]]
    assert drawn[1] == [[[0, 0.3], [2, 0.8]]]
    assert [line[-1][1] for line in drawn[2]] == [0.02, 0.04]
    assert [line[-1][1] for line in drawn[3]] == pytest.approx([0.3, 0.3])


def watch(run, code, **options):
    command = [sys.executable, str(QUICKSTART / "watch.py"), str(run), "--steps", "2", "--", sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_watching_leaves_the_summary_and_keeps_the_console_output_in_the_log(tmp_path):
    code = f"print('noise'); open({str(tmp_path / 'metrics.jsonl')!r}, 'w').write({LINES!r})"
    process = watch(tmp_path, code)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "noise" not in out and (tmp_path / "train.log").read_text() == "noise\n"
    assert (tmp_path / "summary.txt").read_text().startswith("reward 0.40 -> 0.60, validation accuracy 0.30 -> 0.80")
    assert sum("/2 " in line for line in out.splitlines()) == 3  # steps 0, 1 and 2


def test_a_failed_training_shows_the_end_of_its_log_and_passes_its_status_on(tmp_path):
    process = watch(tmp_path, "import sys; print('the reason'); sys.exit(3)")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3 and "reward" not in out
    assert "the reason" in err and str(tmp_path / "train.log") in err


def test_an_interrupt_ends_the_training_too(tmp_path):
    process = watch(tmp_path, "import os, signal; print(os.getpid(), flush=True); signal.pause()")
    process.stdout.readline()  # the first status line: the command has been started
    log = tmp_path / "train.log"
    while not log.read_text().strip():
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[0]), 0)
