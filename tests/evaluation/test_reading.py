"""Files as they come: verl's dump, plain lines, damaged and foreign ones."""

import numpy as np
import pytest

from verl_srpo.evaluation import UnusableFile, read_generations

from .conftest import verl_rows


def test_an_episode_of_many_rows_counts_once(write):
    lines = verl_rows("t1", 0, 1.0, ("a", "b", "c"), data_source="gsm8k", team_tokens=30)
    lines += verl_rows("t1", 1, 0.0, ("a",), data_source="gsm8k", team_tokens=10)
    episodes = read_generations(write("10.jsonl", lines)).episodes
    assert episodes.score.tolist() == [1.0, 0.0]
    assert episodes.question.tolist() == [0, 0]
    assert episodes.numbers["team_tokens"].tolist() == [30.0, 10.0]
    assert episodes.numbers["calls"].tolist() == [3.0, 1.0]


def test_rows_of_an_episode_may_stand_anywhere_in_the_file(write):
    lines = verl_rows("t1", 0, 1.0, ("a", "b")) + verl_rows("t2", 0, 0.0, ("a", "b"), question="q2")
    straight = read_generations(write("a.jsonl", lines)).episodes
    mixed = read_generations(write("b.jsonl", lines[::-1])).episodes
    assert sorted(zip(straight.pairing, straight.score[np.argsort(straight.question)], strict=True)) == sorted(
        zip(mixed.pairing, mixed.score[np.argsort(mixed.question)], strict=True)
    )


def test_the_same_question_is_recognised_under_new_uids(write):
    first = read_generations(write("a.jsonl", verl_rows("t1", 0, 1.0, question="what?"))).episodes
    second = read_generations(write("b.jsonl", verl_rows("zz", 0, 0.0, question="what?"))).episodes
    other = read_generations(write("c.jsonl", verl_rows("t1", 0, 0.0, question="why?"))).episodes
    assert first.pairing == second.pairing
    assert first.pairing != other.pairing


def test_a_question_that_stands_twice_in_the_data_stays_two_questions(write):
    lines = verl_rows("t1", 0, 1.0) + verl_rows("t2", 0, 0.0)
    episodes = read_generations(write("a.jsonl", lines)).episodes
    assert len(set(episodes.pairing)) == 2
    assert episodes.question.tolist() == [0, 1]


def test_an_underscore_name_in_a_plain_file_is_a_question(write):
    lines = [{"data_source": "aime", "uid": uid, "score": 1} for uid in ("aime_2024_1", "aime_2024_2", "aime_2024_1")]
    episodes = read_generations(write("plain.jsonl", lines)).episodes
    assert episodes.pairing == ["aime_2024_1", "aime_2024_2"]
    assert episodes.question.tolist() == [0, 1, 0]


def test_a_folder_gives_its_last_step(write):
    write("val/9.jsonl", verl_rows("t", 0, 0.0, step=9))
    folder = write("val/10.jsonl", verl_rows("t", 0, 1.0, step=10)).parent
    assert read_generations(folder).step == 10
    assert read_generations(folder, step=9).episodes.score.tolist() == [0.0]
    write("run/validation/3.jsonl", verl_rows("t", 0, 1.0, step=3))
    assert read_generations(folder.parent / "run").step == 3
    with pytest.raises(UnusableFile, match=r"no 11\.jsonl; it has steps 9, 10"):
        read_generations(folder, step=11)


def test_several_steps_in_one_file_are_not_mixed(write):
    path = write("all.jsonl", verl_rows("t", 0, 0.0, step=1) + verl_rows("u", 0, 1.0, step=2))
    reading = read_generations(path)
    assert reading.episodes.score.tolist() == [1.0]
    assert any("steps 1, 2; step 2 is evaluated" in note for note in reading.notes)


def test_a_cut_off_last_line_is_skipped_and_said(write):
    path = write("10.jsonl", [*verl_rows("t", 0, 1.0), '{"input": "q", "out'])
    reading = read_generations(path)
    assert len(reading.episodes) == 1
    assert any("skipped 1 line (cut off in the middle" in note and "line 2" in note for note in reading.notes)


def test_bad_lines_are_counted_by_reason(write):
    good = {"data_source": "a", "uid": "1", "score": 1.0}
    bad = [
        {"data_source": "a", "uid": "1", "score": None},
        {"data_source": "a", "uid": "1", "score": float("nan")},
        {"data_source": "a", "score": 1},
        {"uid": "1"},
        "[1, 2]\n",
        "nonsense\n",
    ]
    notes = " ".join(read_generations(write("x.jsonl", [good, *bad])).notes)
    for expected in (
        "2 lines ('score' is not a number)",
        "1 line (neither 'uid' nor 'input'",
        "1 line (no 'score')",
        "1 line (not a JSON object)",
        "1 line (not JSON)",
    ):
        assert expected in notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("PAR1\x00\x01", "a parquet file"),
        ('[{"score": 1}]', "one JSON array"),
        ('{"step": 1, "data": {"a": 2}}\n', "a metrics log.*verl-srpo report"),
        ('{"prompt": "x", "label": 1}\n', r"\(no 'score'\).*found: label, prompt"),
        ("just text\n", "no line is a JSON object"),
    ],
)
def test_foreign_files_are_named(write, content, message):
    path = write("foreign", [content])
    with pytest.raises(UnusableFile, match=message) as caught:
        read_generations(path)
    assert str(path) in str(caught.value)


def test_missing_paths_are_named(tmp_path):
    with pytest.raises(UnusableFile, match="no such file"):
        read_generations(tmp_path / "absent.jsonl")
    with pytest.raises(UnusableFile, match=r"no <step>\.jsonl file.*validation_data_dir"):
        read_generations(tmp_path)


def test_queries_are_counted_from_search_tags(write):
    outputs = (
        "<think>x</think><search>Who wrote  it?</search>",
        "<search>who wrote it?</search>",
        "<search>when</search>",
    )
    episodes = read_generations(write("a.jsonl", verl_rows("t", 0, 1.0, outputs))).episodes
    assert episodes.numbers["queries"].tolist() == [3.0]
    assert episodes.numbers["duplicate_queries"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (r"so \boxed{\frac{1}{2}} and finally FINAL: \boxed{ $42$. }", "42"),
        (r"nested \boxed{\frac{a}{b}}", r"\frac{a}{b}"),
        (r"unclosed \boxed{3} then \boxed{4", "3"),
        ("no box", None),
        (r"\boxed{}", None),
    ],
)
def test_boxed_answers_vote(output, answer):
    from verl_srpo.evaluation import parse_record

    assert parse_record({"uid": "1", "score": 1, "output": output}).answer == answer


def test_the_scorers_own_extraction_goes_before_the_box():
    from verl_srpo.evaluation import parse_record

    line = {"uid": "1", "score": 1, "output": r"\boxed{1}", "pred": "2", "answer": "the truth, not a vote"}
    assert parse_record(line).answer == "2"
    assert parse_record({**line, "pred": ""}).answer is None


@pytest.mark.parametrize(("evidence", "found"), [("(1) Paris: city of France", 1.0), ("(1) Parisian cafés", 0.0)])
def test_gold_in_the_evidence_is_told_from_the_prompts(write, evidence, found):
    question = "Is the capital of France Lyon or paris?"  # the question names the gold too, and that is no evidence
    lines = verl_rows("t", 0, 1.0, ("<search>capital</search>", "<answer>Paris</answer>"), gts={"target": ["Paris"]})
    lines[0]["input"], lines[1]["input"] = question, f"{question}\n{evidence}"
    episodes = read_generations(write("a.jsonl", lines)).episodes
    assert episodes.numbers["evidence_has_gold"].tolist() == [found]


def transcript(session, reward, *, question="what?", dropped=""):
    """What `verl-srpo rollout --json` writes of an episode."""
    members = [{"agent": "alice", "text": "<search>x</search>"}, {"agent": "bob", "text": "<search>x</search>"}]
    return {
        "workflow": "search/parallel",
        "uid": "task0",
        "session_id": session,
        "data_source": "hotpotqa",
        "question": question,
        "answer": "42",
        "outcome_reward": reward,
        "info": {"turns": 1},
        "dropped": dropped,
        "costs": {"team_tokens": 12.0, "calls": 2.0, "events": 1.0, "mean_set_size": 2.0},
        "events": [{"event": 0, "set_size": 2, "members": members}],
        "unconsumed": [],
    }


def test_transcripts_of_a_rollout_are_episodes(write):
    path = write("rollout.jsonl", [transcript(0, 1.0), transcript(1, 0.0), transcript(2, None, dropped="timeout")])
    reading = read_generations(path)
    episodes = reading.episodes
    assert episodes.sources == ["hotpotqa"]
    assert episodes.score.tolist() == [1.0, 0.0]
    assert episodes.question.tolist() == [0, 0]
    assert episodes.numbers["team_tokens"].tolist() == [12.0, 12.0]
    assert episodes.numbers["duplicate_queries"].tolist() == [1.0, 1.0]
    assert any("an episode without a score, dropped: timeout" in note for note in reading.notes)
    other = read_generations(write("other.jsonl", [transcript(0, 1.0)])).episodes
    assert other.pairing == episodes.pairing
