"""Reading runs: logs as they are while training, after a resume, when damaged; TensorBoard files; settings."""

import json

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from verl_srpo.reports.event_files import DamagedRecord, read_scalars
from verl_srpo.reports.runs import Group, Run, Series, UnusableRun, band_of, read_run, without_seed

from .conftest import event_record, log_lines


def series(values: dict[int, float]) -> Series:
    return Series(np.array(list(values)), np.array(list(values.values())))


def test_a_log_becomes_series(make_run):
    run = read_run(make_run("r", log_lines([1, 2, 3])), "r")
    assert run.series["srpo/rows"].steps.tolist() == [1, 2, 3]
    assert run.series["val-core/gsm8k/acc/mean@4"].steps.tolist() == [2]
    assert run.last_step == 3
    assert list(run.matching(r"srpo/k(\d+)/clip_low")) == ["1", "2"]


def test_a_resumed_run_counts_what_was_logged_last(make_run):
    log = log_lines([1, 2, 3], reward=0.1) + log_lines([3, 4], reward=0.9) + log_lines([2], reward=0.7)
    run = read_run(make_run("r", log), "r")
    assert run.series["srpo/outcome_reward/mean"].values.tolist() == [0.1, 0.7, 0.9, 0.9]
    assert any("logged again after a resume" in note for note in run.notes)


def test_damaged_lines_are_skipped_and_said(make_run):
    log = log_lines([1]) + "garbage\n" + '{"step": "two", "data": {}}\n' + log_lines([3]) + '{"step": 4, "da'
    run = read_run(make_run("r", log), "r")
    assert run.series["srpo/rows"].steps.tolist() == [1, 3]
    notes = " | ".join(run.notes)
    assert "skipped 1 line (not JSON), the first is line 2" in notes
    assert "(no 'step' and 'data'), the first is line 3" in notes
    assert "cut off in the middle" in notes


def test_what_is_no_finite_number_is_left_out(make_run):
    line = json.dumps({"step": 1, "data": {"a": None, "b": "text", "c": float("nan"), "d": True, "e": 2}})
    assert set(read_run(make_run("r", line + "\n"), "r").series) == {"d", "e"}


@pytest.mark.parametrize(
    ("content", "message"), [("", "the file is empty"), ("a,b\n1,2\n", "not JSON"), ('{"score": 1}\n', "no 'step'")]
)
def test_a_file_without_metrics_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "metrics.jsonl"
    path.write_text(content)
    with pytest.raises(UnusableRun, match=message) as caught:
        read_run(path, "r")
    assert str(path) in str(caught.value)


def test_a_folder_without_metrics_and_a_missing_one(tmp_path):
    with pytest.raises(UnusableRun, match="no metrics"):
        read_run(tmp_path, "r")
    with pytest.raises(UnusableRun, match="no such file"):
        read_run(tmp_path / "absent", "r")


def test_a_log_under_another_name_is_found(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "experiment.jsonl").write_text(log_lines([1]))
    (tmp_path / "0.jsonl").write_text('{"input": "a", "output": "b", "score": 1}\n')
    assert read_run(tmp_path, "r").last_step == 1


def test_tensorboard_files_of_the_real_writer(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2, 300):
            writer.add_scalar("actor/grad_norm", step / 2, step)
        writer.add_text("note", "not a number", 1)
    run = read_run(tmp_path, "r")
    assert run.series["actor/grad_norm"].steps.tolist() == [1, 2, 300]
    assert run.series["actor/grad_norm"].values.tolist() == [0.5, 1.0, 150.0]
    assert set(run.series) == {"actor/grad_norm"}


def test_scalars_stored_as_tensors(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(event_record(1, "a", 0.25) + event_record(2, "a", 0.5, tensor=True))
    assert list(read_scalars(file)) == [(1, "a", 0.25), (2, "a", 0.5)]


@pytest.mark.parametrize("damage", [b"\x01\x02\x03", event_record(2, "a", 1.0)[:-6], b"\xff" * 40])
def test_a_damaged_event_file_keeps_what_came_before(tmp_path, damage):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(event_record(1, "a", 0.25) + damage)
    read = []
    with pytest.raises(DamagedRecord):
        for scalar in read_scalars(file):
            read.append(scalar)
    assert read == [(1, "a", 0.25)]
    assert "what came before is used" in read_run(tmp_path, "r").notes[0]


def test_settings_are_flat_names(make_run):
    config = (
        "algorithm: {adv_estimator: srpo}\ntrainer:\n  logger: [console, file]\n  total_training_steps: 5\nempty: {}\n"
    )
    run = read_run(make_run("r", log_lines([1]), config), "r")
    assert run.settings == {
        "algorithm.adv_estimator": "srpo",
        "trainer.logger": '["console", "file"]',
        "trainer.total_training_steps": "5",
        "empty": "{}",
    }
    bare = read_run(make_run("bare", log_lines([1])), "bare")
    assert any("its settings are unknown" in note for note in bare.notes)
    broken = read_run(make_run("broken", log_lines([1]), "a: [1"), "broken")
    assert any("not readable as YAML" in note for note in broken.notes)


def test_a_band_has_the_steps_that_all_seeds_have():
    band = band_of([series({1: 1.0, 2: 2.0, 3: 9.0}), series({2: 4.0, 3: 9.0, 4: 0.0})])
    assert band.steps.tolist() == [2, 3]
    assert band.mean.tolist() == [3.0, 9.0]
    assert band.deviation.tolist() == pytest.approx([2**0.5, 0.0])
    assert band_of([series({1: 1.0}), series({2: 1.0})]) is None
    assert band_of([]) is None


def test_set_sizes_are_in_order_of_number():
    run = Run("r", None, {f"srpo/k{size}/count": series({1: 1.0}) for size in (1, 10, 2)})
    assert list(Group("r", [run]).matching(r"srpo/k(\d+)/count")) == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("name", "common"),
    [
        ("srpo-seed3", "srpo"),
        ("srpo_s12", "srpo"),
        ("srpo-seed=1", "srpo"),
        ("runs", "runs"),
        ("seed1", "seed1"),
        ("grpo", "grpo"),
    ],
)
def test_seeds_of_a_run_share_a_name(name, common):
    assert without_seed(name) == common
