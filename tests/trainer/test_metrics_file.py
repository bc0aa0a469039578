"""A resumed run goes on with the same metrics file."""

import json

import pytest
from verl.utils.tracking import Tracking

from verl_srpo.trainer.metrics_file import lines_until, metrics_path, write_back


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "metrics.jsonl"))
    return tmp_path / "metrics.jsonl"


def steps(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_earlier_steps_are_kept_and_later_ones_are_logged_again(path):
    first = Tracking("p", "e", default_backend=["file"])
    for step in range(1, 5):
        first.log({"x": step}, step=step)
    first.finish()
    path.write_bytes(path.read_bytes() + b'{"step":5,"da')  # the job was killed while it wrote
    kept = lines_until(metrics_path(None), last_step=3)
    second = Tracking("p", "e", default_backend=["file"])
    write_back(second, kept)
    second.log({"x": 4}, step=4)
    second.finish()
    assert steps(path) == [1, 2, 3, 4]


def test_path_follows_verl_without_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("VERL_FILE_LOGGER_PATH", raising=False)
    monkeypatch.setenv("VERL_FILE_LOGGER_ROOT", str(tmp_path))
    from omegaconf import OmegaConf

    config = OmegaConf.create({"trainer": {"project_name": "p", "experiment_name": "e"}})
    tracking = Tracking("p", "e", default_backend=["file"])
    tracking.log({"x": 1}, step=1)
    tracking.finish()
    assert steps(metrics_path(config)) == [1]


def test_no_file_no_lines(tmp_path):
    assert lines_until(tmp_path / "nothing.jsonl", 3) == []
