"""Every preset through one step of the real trainer."""

import pytest

from tests.config.test_settings import PRESETS
from tests.e2e.jobs import ACTOR, run, srpo

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_trains_a_step(preset, toy, tmp_path):
    job = run(
        tmp_path,
        toy,
        *srpo("trainer.total_training_steps=1", preset=preset),
        "data.train_batch_size=2",
        f"{ACTOR}.ppo_mini_batch_size=2",
        f"{ACTOR}.ppo_epochs=2",
    )
    (step,) = job.steps
    assert f"[SRPO] preset {preset}:" in job.log
    assert step["srpo/rows"] == 2 * 3 * 3
    assert step["actor/grad_norm"] > 0
    if preset in ("dr_mas", "at_grpo"):  # every output is a set of its own
        assert step["srpo/k1/count"] == step["srpo/sets"] == 18
    else:
        assert (step["srpo/k2/count"], step["srpo/k1/count"]) == (6, 6)
