"""Every preset through one step of the real trainer."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.config.test_settings import PRESETS
from tests.e2e.jobs import ACTOR, srpo, start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def jobs(toy, tmp_path_factory):
    """All presets' jobs, two at a time: a job's start uses one core most of the time."""

    def train(preset):
        overrides = srpo("trainer.total_training_steps=1", preset=preset)
        sizes = ["data.train_batch_size=2", f"{ACTOR}.ppo_mini_batch_size=2", f"{ACTOR}.ppo_epochs=2"]
        job = start(tmp_path_factory.mktemp(preset), toy, *overrides, *sizes)
        return job, job.code(timeout=500)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(PRESETS, pool.map(train, PRESETS), strict=True))


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_trains_a_step(preset, jobs):
    job, code = jobs[preset]
    assert code == 0, job.log[-6000:]
    (step,) = job.steps
    assert f"[SRPO] preset {preset}:" in job.log
    assert step["srpo/rows"] == 2 * 3 * 3
    assert step["actor/grad_norm"] > 0
    if preset in ("dr_mas", "at_grpo"):  # every output is a set of its own
        assert step["srpo/k1/count"] == step["srpo/sets"] == 18
    else:
        assert (step["srpo/k2/count"], step["srpo/k1/count"]) == (6, 6)
