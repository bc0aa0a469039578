"""The search teams: sets on every path, evidence, malformed actions, a retriever that fails."""

import pytest

from tests.workflows.teams import (
    ANSWER,
    NO,
    PASSAGES,
    STOP,
    YES,
    Passage,
    WordRetriever,
    consumed,
    marked,
    play,
    route,
    search,
)
from verl_srpo.rollout import DefinitionError, build_workflow
from verl_srpo.workflows.evidence import Evidence

QUERIES = {"searcher1": search("capital"), "searcher2": search("river"), "searcher3": search("Tiber")}


async def test_team_routes_searches_judges_and_answers():
    retriever = WordRetriever()
    replies = {"router": [route(1, 3), route(2)], "verifier": [NO, YES], "answerer": ANSWER, **QUERIES}
    episode, llm = await play("search/team", replies, {"retriever": retriever})
    assert consumed(episode) == [
        ["router"], ["searcher1", "searcher3"], ["verifier"], ["router"], ["searcher2"], ["verifier"], ["answerer"],
    ]  # fmt: skip
    assert [event.state for event in episode.events] == list(range(7))
    assert retriever.asked == [["capital", "Tiber"], ["river"]]
    assert episode.costs["tool_calls"] == 3 and dict(episode.outcome.info) == {"turns": 2, "queries": 3}
    assert episode.outcome.answer == ANSWER
    assert "(1) France: The capital of France is Paris." in llm.calls[-1].prompt


async def test_stop_ends_the_turns_without_a_search():
    episode, _ = await play("search/team", {"router": STOP, "answerer": ANSWER})
    assert consumed(episode) == [["router"], ["answerer"]] and not marked(episode)


@pytest.mark.parametrize("said", ["", "everyone", route(0), "<route>1</route> and more"])
async def test_a_malformed_route_is_neither_stop_nor_everyone(said):
    episode, _ = await play("search/team", {"router": [said, STOP], "answerer": ANSWER})
    assert consumed(episode) == [["router"], ["router"], ["answerer"]], "the turn is spent, nobody searches"
    assert marked(episode) == ["router#0"]
    assert [episode.event_reward(event) for event in episode.events] == [-0.1, 0.0, 0.0]


async def test_turns_end_at_their_limit():
    replies = {"router": route(1), "verifier": "not sure", "answerer": ANSWER, **QUERIES}
    episode, _ = await play("search/team", replies, {"turns": 2})
    assert consumed(episode) == [["router"], ["searcher1"], ["verifier"]] * 2 + [["answerer"]]
    assert marked(episode) == ["verifier#2", "verifier#5"]


async def test_fixed_routing_asks_everyone_and_has_no_router():
    replies = {"verifier": YES, "answerer": ANSWER, **QUERIES}
    episode, _ = await play("search/team", replies, {"routing": "fixed"})
    assert consumed(episode) == [["searcher1", "searcher2", "searcher3"], ["verifier"], ["answerer"]]
    assert "router" not in episode.agents


async def test_a_search_event_of_two_queries_has_two_members_however_many_passages_come_back():
    replies = {"router": route(1, 2), "verifier": YES, "answerer": ANSWER, **QUERIES, "searcher2": search("France")}
    episode, llm = await play("search/team", replies, {"topk": 4})
    assert episode.events[1].size == 2 and len(episode.trained) == 5
    assert llm.calls[-1].prompt.count("The capital of France") == 1, "merged: each passage once"


async def test_a_malformed_query_asks_nothing_and_stays_a_member():
    retriever = WordRetriever()
    replies = {"router": route(1, 2), "verifier": YES, "answerer": ANSWER, **QUERIES, "searcher1": "capital?"}
    episode, _ = await play("search/team", replies, {"retriever": retriever})
    assert retriever.asked == [["river"]]
    assert episode.events[1].size == 2 and marked(episode) == ["searcher1#1"]
    assert episode.event_reward(episode.events[1]) == -0.1


async def test_no_query_at_all_leaves_the_retriever_alone():
    retriever = WordRetriever()
    replies = {"router": route(1), "searcher1": "?", "verifier": YES, "answerer": ANSWER}
    episode, llm = await play("search/team", replies, {"retriever": retriever})
    assert retriever.asked == [] and "(no evidence)" in llm.calls[-1].prompt and not episode.dropped


async def test_a_retriever_that_stays_down_drops_the_episode_and_no_error_is_shown():
    retriever = WordRetriever(error=ConnectionError("502"))
    replies = {"router": route(1), "verifier": YES, "answerer": ANSWER, **QUERIES}
    episode, llm = await play("search/team", replies, {"retriever": retriever})
    assert (episode.dropped, episode.trained) == ("tool_error", [])
    assert not any("502" in call.prompt for call in llm.calls)


async def test_a_retrieval_that_fails_half_way_drops_the_whole_episode():
    class Fails(WordRetriever):
        async def search(self, queries, topk=None):
            if self.asked:
                self.error = ConnectionError("502")
            return await super().search(queries, topk)

    replies = {"router": [route(1, 2), route(3)], "verifier": NO, "answerer": ANSWER, **QUERIES}
    episode, _ = await play("search/team", replies, {"retriever": Fails()})
    assert consumed(episode) == [["router"], ["searcher1", "searcher2"], ["verifier"], ["router"], ["searcher3"]]
    assert (episode.dropped, episode.trained) == ("tool_error", []), "no prefix of it is trained on"
    assert "retriever, 1 queries: ConnectionError: 502" in episode.message


async def test_a_searcher_that_fails_removes_its_set_and_the_other_queries_count():
    retriever = WordRetriever()
    replies = {"router": route(1, 2), "verifier": YES, "answerer": ANSWER, **QUERIES, "searcher1": OSError("gone")}
    episode, _ = await play("search/team", replies, {"retriever": retriever})
    assert retriever.asked == [["river"]]
    assert [event.failure for event in episode.events] == ["", "server_error", "", ""]


async def test_hierarchical_asks_the_verifier_first():
    replies = {"verifier": [NO, YES], "searcher": search("capital"), "answerer": ANSWER}
    episode, _ = await play("search/hierarchical", replies)
    assert consumed(episode) == [["verifier"], ["searcher"], ["verifier"], ["answerer"]]
    assert all(event.size == 1 for event in episode.events)
    episode, _ = await play("search/hierarchical", {"verifier": YES, "answerer": ANSWER})
    assert consumed(episode) == [["verifier"], ["answerer"]]


async def test_parallel_writers_then_an_answer():
    retriever = WordRetriever()
    replies = {"writer1": search("capital"), "writer2": search("capital"), "answerer": ANSWER}
    episode, _ = await play("search/parallel", replies, {"n": 2, "retriever": retriever})
    assert consumed(episode) == [["writer1", "writer2"], ["answerer"]]
    assert retriever.asked == [["capital"]], "the same query is asked once"


@pytest.mark.parametrize("said", ["Paris", "<answer>Paris</answer>", ANSWER + ANSWER])
async def test_a_malformed_answer_is_not_repaired(said):
    episode, _ = await play("search/parallel", {"answerer": said, "writer1": search("x")}, {"n": 1})
    assert episode.outcome.answer == "" and "answerer#1" in marked(episode) and not episode.dropped


def test_evidence_grows_at_its_end_by_rank():
    evidence = Evidence(WordRetriever(), topk=3)
    evidence.add([[PASSAGES[0], PASSAGES[1]], [PASSAGES[2], PASSAGES[0]]])
    before = str(evidence)
    assert [line.split(":")[0] for line in before.splitlines()] == ["(1) France", "(2) Seine", "(3) Paris"]
    evidence.add([[PASSAGES[1], Passage("9", "Two\nlines", "a\n  b")]])
    assert str(evidence).startswith(before) and len(evidence) == 4
    assert str(evidence).endswith("a b")


@pytest.mark.parametrize("given", [None, 7, object()])
def test_a_search_team_needs_a_retriever(given):
    with pytest.raises(DefinitionError, match=r"set srpo\.workflow_kwargs\.retriever"):
        build_workflow("search/team", {"retriever": given})


@pytest.mark.parametrize("name", ["search/team", "search/hierarchical", "search/parallel"])
def test_settings_out_of_range(name):
    with pytest.raises(DefinitionError, match="topk=0"):
        build_workflow(name, {"topk": 0, "retriever": WordRetriever()})
