"""One call: what is sent, what may come back, and the limits."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.rollout.scripted import BASE, EOS, CharCodec, ScriptedLLM, make_team, tokens
from verl_srpo.rollout import Agent, Limits, Sampling

LIMITS = {"context": 100, "prompt": 60, "response": 20}


async def ask(llm, agent=None, view="?", **kwargs):
    return await make_team(llm, agent or Agent("a"), **kwargs).ask("a", view)


def characters(text):
    return CharCodec().encode(text)


async def test_ids_and_log_probs_are_kept_as_sampled():
    ids, log_probs = [BASE + 65, EOS, BASE + 66, EOS], [-0.1, -2.0, -0.3, -0.4]
    output = await ask(ScriptedLLM({"a": tokens(ids, log_probs)}))
    assert (output.response_ids, output.log_probs, output.text) == (ids, log_probs, "AB")
    assert output.prompt_ids == characters("<user>?<assistant>")
    assert output.server_fields["min_global_steps"] == 7


async def test_the_request_is_sticky_for_episode_and_agent():
    llm = ScriptedLLM()
    team = make_team(llm, "a", "b", episode="u9-3")
    for _ in range(2):
        await team.act({"a": "?", "b": "?"})
    assert [call.request_id for call in llm.calls] == ["u9-3-a", "u9-3-b"] * 2
    team._generator.unique_requests = True
    await team.act({"a": "?", "b": "?"})
    assert [call.request_id for call in llm.calls[4:]] == ["u9-3-a#4", "u9-3-b#5"]


@pytest.mark.parametrize(
    ("result", "reason", "message"),
    [
        (tokens([12, 13], [-0.1]), "log_prob_mismatch", "2 token ids and 1 log-probs"),
        (tokens([12, 13], None), "log_prob_mismatch", "2 token ids and 0 log-probs"),
        (tokens([12], [float("nan")]), "garbage", "not finite"),
        (tokens([12], [float("-inf")]), "garbage", "not finite"),
        (tokens(["x"], [-0.1]), "garbage", "the server returned"),
        (tokens(None, None), "garbage", "the server returned"),
        (SimpleNamespace(), "garbage", "the server returned"),
        ({"text": "hello"}, "garbage", "the server returned"),
        (tokens([2**40], [-0.1]), "garbage", "do not decode"),
        (tokens([], None, stop_reason="aborted"), "aborted", "aborted the request"),
        (ConnectionError("gone"), "server_error", "ConnectionError: gone"),
        (RuntimeError("out of memory"), "server_error", "RuntimeError: out of memory"),
    ],
)
async def test_what_a_server_must_not_return(result, reason, message):
    output = await ask(ScriptedLLM({"a": lambda call: result}))
    assert output.failed and output.failure == reason
    assert message in output.failure_message and "a#0" in output.failure_message
    assert (output.text, output.response_ids, output.log_probs) == ("", [], None)


async def test_log_probs_that_nobody_uses_are_not_asked_for():
    output = await ask(ScriptedLLM({"a": tokens([12, 13], None)}), sampling={"temperature": 1.0, "logprobs": False})
    assert not output.failed and output.log_probs is None


async def test_a_call_that_takes_too_long_fails():
    llm = ScriptedLLM(gates={"a": asyncio.Event()})  # never set
    output = await ask(llm, limits=Limits(**LIMITS, timeout=0.01))
    assert output.failure == "timeout" and "srpo.call_timeout=0.01" in output.failure_message
    assert llm.in_flight == 0


@pytest.mark.parametrize(
    ("reply", "truncated"),
    [
        ("x" * 19, False),  # 19 and the end of the turn fill the limit of 20
        ("x" * 20, True),
        ("x" * 30, True),
        ("x" * 15 + "STOP!", False),  # a stop string ends it exactly at the limit
        ("short", False),
        (tokens([BASE + 65], [-0.1], stop_reason="length"), True),
    ],
)
async def test_truncation_is_told_from_the_tokens(reply, truncated):
    agent = Agent("a", sampling=Sampling(max_tokens=20, stop=("STOP!",)))
    output = await ask(ScriptedLLM({"a": reply}), agent)
    assert output.truncated is truncated and not output.failed


async def test_a_prompt_over_the_limit_names_agent_length_and_option():
    llm = ScriptedLLM()
    output = await ask(llm, view="y" * 60, limits=Limits(**LIMITS))
    assert output.failure == "prompt_too_long" and llm.calls == []
    for part in ("a#0", "prompt of 77 tokens", "data.max_prompt_length=60", "srpo.truncate_prompts"):
        assert part in output.failure_message


async def test_an_agent_may_have_a_limit_of_its_own():
    agent = Agent("a", max_prompt_tokens=78)
    assert not (await ask(ScriptedLLM(), agent, view="y" * 60, limits=Limits(**LIMITS))).failed
    output = await ask(ScriptedLLM(), Agent("a", max_prompt_tokens=20), view="y" * 10, limits=Limits(**LIMITS))
    assert "Agent.max_prompt_tokens=20" in output.failure_message


async def test_prompt_and_answer_must_fit_into_the_context():
    agent = Agent("a", sampling=Sampling(max_tokens=50))
    output = await ask(ScriptedLLM(), agent, view="y" * 40, limits=Limits(**LIMITS))
    for part in ("prompt of 57 tokens", "50 to generate", "rollout.max_model_len=100", "srpo.agents.a.max_tokens"):
        assert part in output.failure_message


async def test_cutting_the_head_is_a_choice_and_fits_both_limits():
    llm = ScriptedLLM()
    agent = Agent("a", sampling=Sampling(max_tokens=50))
    output = await ask(llm, agent, view="x" * 40 + "y" * 40, limits=Limits(**LIMITS, truncate_prompts=True))
    assert not output.failed
    assert output.prompt_ids == characters("y" * 39 + "<assistant>") == llm.calls[0].prompt_ids


async def test_a_chat_template_that_refuses_the_messages_fails_the_call():
    class Refuses(CharCodec):
        def prompt(self, messages):
            raise ValueError("roles must alternate")

    output = await ask(ScriptedLLM(codec=Refuses()))
    assert output.failure == "chat_template" and "roles must alternate" in output.failure_message
