"""docs/workflows.md against what runs: the event tables, and the example."""

import re
from pathlib import Path

import pytest

from tests.rollout.scripted import ScriptedLLM, run
from tests.workflows.teams import ANSWER, APPROVE, BOXED, FINAL, NO, REJECT, YES, play, route, search
from verl_srpo.rollout import build_workflow, list_workflows

TEXT = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text()
SEARCHERS = {f"searcher{i}": search("capital") for i in (1, 2, 3)}
SOLVERS = {f"solver{i}": BOXED for i in (1, 2, 3)}
EPISODES = {
    "demo/joint": ({}, {}),
    "math/debate": ({}, {}),
    "math/solver_verifier": ({}, {"solver": BOXED, "verifier": [REJECT, APPROVE]}),
    "math/team": (
        {"routing": "adaptive"},
        {"router": route(1, 3), **SOLVERS, "verifier": [REJECT, APPROVE], "reviser": BOXED, "aggregator": FINAL},
    ),
    "search/team": (
        {},
        {"router": [route(1, 2), route(3)], **SEARCHERS, "verifier": [NO, YES], "answerer": ANSWER},
    ),
    "search/hierarchical": ({}, {"verifier": [NO, YES], "searcher": search("capital"), "answerer": ANSWER}),
    "search/parallel": ({}, {f"writer{i}": search("capital") for i in (1, 2, 3)} | {"answerer": ANSWER}),
}


def table(name):
    """The rows below the heading `### name` as (event, state, consumed agents, K)."""
    section = TEXT.split(f"\n### {name}\n")[1].split("\n##")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [(int(event), int(state), agents.split(", "), int(k)) for event, state, agents, _, k in cells[2:]]


def test_every_built_in_workflow_has_an_episode_here():
    built_in = {name for name, cls in list_workflows().items() if cls.__module__.startswith("verl_srpo.")}
    assert built_in == set(EPISODES)


@pytest.mark.parametrize("name", EPISODES)
@pytest.mark.parametrize("validate", [False, True])
async def test_field_report_28_the_event_tables_are_what_happens_in_training_and_validation(name, validate):
    """MARTI#3: a chain workflow fails only at evaluation."""
    settings, replies = EPISODES[name]
    episode, _ = await play(name, replies, settings, validate=validate)
    assert not episode.dropped and not any(output.invalid for output in episode.outputs)
    happened = [(e.index, e.state, [m.agent for m in e.members], e.size) for e in episode.events]
    assert happened == table(name)


def example(number):
    """The text of the number-th block of Python."""
    return re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[number]


async def test_the_example_runs_and_is_short(tmp_path):
    code = example(0)
    assert len(code.strip().splitlines()) <= 30
    path = tmp_path / "pair.py"
    path.write_text(code)
    workflow, _ = build_workflow(f"{path}:Pair", {"tries": 3})
    llm = ScriptedLLM({"ann": "first", "ben": "second", "editor": ["AGAIN, shorter", "AGAIN", "done"]})
    episode = await run(workflow, llm)
    assert [event.size for event in episode.events] == [2, 1] * 3
    assert episode.outcome.answer == "done" and episode.outputs[5].invalid == "does not say why"
    assert "The editor says: AGAIN, shorter" in llm.calls[3].prompt
    assert llm.calls[0].prompt.startswith("<system>You write plainly.")
    assert [call.sampling.get("temperature") for call in llm.calls[:2]] == [1.0, 0.7]


async def test_the_examples_test_passes_and_can_fail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.py").write_text(example(0))
    test: dict = {}
    exec(example(1), test)
    await test["test_the_editor_sends_them_back_once"]()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "other" / "pair.py").write_text(example(0).replace("AGAIN", "MORE"))
    with pytest.raises(AssertionError):
        await test["test_the_editor_sends_them_back_once"]()
