"""Rosters, per-agent sampling, and their overrides."""

import pytest

from verl_srpo.rollout import Agent, DefinitionError, Sampling
from verl_srpo.rollout.agent import override

BASE = {"temperature": 1.0, "top_p": 1.0, "logprobs": True}


def test_training_parameters_are_the_agents_on_top_of_verls():
    agent = Agent("a", sampling=Sampling(temperature=0.7, max_tokens=9, stop=("</search>",)))
    assert agent.sampling_parameters(BASE, validate=False, max_tokens=64) == {
        "temperature": 0.7, "top_p": 1.0, "logprobs": True, "max_tokens": 9, "stop": ["</search>"],
    }  # fmt: skip


def test_validation_keeps_the_shape_and_leaves_the_rest_to_val_kwargs():
    agent = Agent("a", sampling=Sampling(temperature=0.7, top_k=5, max_tokens=9), validation=Sampling(top_p=0.9))
    assert agent.sampling_parameters({"temperature": 0, "top_p": 1.0}, validate=True, max_tokens=64) == {
        "temperature": 0, "top_p": 0.9, "max_tokens": 9,
    }  # fmt: skip


def test_max_tokens_is_always_sent():
    assert Agent("a").sampling_parameters({}, validate=False, max_tokens=64) == {"max_tokens": 64}


def test_overrides_reach_one_agent_and_keep_the_rest():
    roster = override(
        [Agent("a", system="old", sampling=Sampling(top_p=0.5)), Agent("b")],
        {"a": {"system": "new", "temperature": 0.3, "stop": "END", "validation": {"temperature": 0.6}}},
    )
    assert roster == (
        Agent("a", "new", Sampling(temperature=0.3, top_p=0.5, stop=("END",)), Sampling(temperature=0.6)),
        Agent("b"),
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"jugde": {}}, r"srpo\.agents\.jugde: there is no agent 'jugde'; did you mean 'judge'\?"),
        ({"judge": {"temprature": 1}}, r"srpo\.agents\.judge\.temprature: .*did you mean 'temperature'"),
        ({"judge": {"validation": {"system": "x"}}}, r"srpo\.agents\.judge\.validation\.system"),
        ({"judge": {"top_p": 0}}, r"top_p=0: must be in \(0, 1\]"),
        ({"judge": {"temperature": -1}}, r"temperature=-1"),
        ({"judge": {"max_tokens": 0}}, r"max_tokens=0"),
    ],
)
def test_wrong_overrides_name_what_is_wrong(overrides, message):
    with pytest.raises(DefinitionError, match=message):
        override([Agent("solver"), Agent("judge")], overrides)


def test_a_roster_has_agents_of_different_names():
    with pytest.raises(DefinitionError, match="must be unique"):
        override([Agent("a"), Agent("a")], None)
    with pytest.raises(DefinitionError, match="has no agents"):
        override([], None)
