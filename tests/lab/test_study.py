"""The study around the runs: kept results, chosen clips, verdicts, the page."""

import json
from dataclasses import replace

import pytest

from verl_srpo.lab.cases import CLIPS, COMMON_CLIP, cases
from verl_srpo.lab.findings import claims, difference, final, interval
from verl_srpo.lab.game import Game
from verl_srpo.lab.page import STACK_BEGIN, STACK_END, render, write_page
from verl_srpo.lab.results import Result, Store
from verl_srpo.lab.study import Outcome, best_clip, work
from verl_srpo.lab.training import Curves, Variant

TINY = Variant(Game((2,), tasks=2, rollouts=2), competence=0.2, steps=2, epochs=1)


def curves(seed=0, reward=0.5, sizes=(1,), norms=(1.0, 2.0), steps=20):
    return Curves(
        seed,
        reward=[reward] * steps,
        gradient_norm=[norms[i % 2] for i in range(steps)],
        clip_fraction=[0.1] * steps,
        reward_by_size=dict.fromkeys(sizes, reward),
        spread={size: [1.0, 1.0, 0.0] for size in sizes},
    )


def test_a_store_keeps_runs_by_variant_and_seed(tmp_path):
    store = Store(tmp_path / "runs.jsonl")
    store.add(TINY, [curves(0), curves(2)])
    again = Store(tmp_path / "runs.jsonl")
    assert again.missing(TINY, [0, 1, 2]) == [1]
    assert again.missing(replace(TINY, clip=0.1), [0]) == [0]
    assert again.results(TINY, [2])[0].curves == curves(2)


def test_a_damaged_line_costs_its_run_only(tmp_path):
    path = tmp_path / "runs.jsonl"
    Store(path).add(TINY, [curves(0), curves(1)])
    whole = path.read_text()
    path.write_text(whole[:-40])  # killed while it wrote
    store = Store(path)
    assert (store.damaged, store.missing(TINY, [0, 1])) == (1, [1])
    store.add(TINY, [curves(1)])
    assert Store(path).missing(TINY, [0, 1]) == []


def test_results_of_other_code_are_not_used(tmp_path):
    path = tmp_path / "runs.jsonl"
    Store(path).add(TINY, [curves(0)])
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "version": "other"}) + "\n")
    store = Store(path)
    assert (store.damaged, store.missing(TINY, [0])) == (0, [0])


def test_work_runs_what_is_missing_and_nothing_else(tmp_path, capsys):
    store = Store(tmp_path / "runs.jsonl")
    store.add(TINY, [curves(0, reward=0.123)])
    work(store, [(TINY, [0, 1])], workers=1, what="test")
    first, second = Store(tmp_path / "runs.jsonl").results(TINY, [0, 1])
    assert first.final == 0.123
    assert len(second.curves.reward) == 2
    lines = (tmp_path / "runs.jsonl").read_text().count("\n")
    work(store, [(TINY, [0, 1])], workers=1, what="test")
    assert (tmp_path / "runs.jsonl").read_text().count("\n") == lines == 2


def test_numbers_of_a_run_by_hand():
    result = Result(replace(curves(norms=(1.0, 3.0)), reward=[0.0] * 18 + [0.5, 1.0]))
    assert result.final == 0.75
    assert result.average == pytest.approx(1.5 / 20)
    assert result.gradient_variation == pytest.approx(0.5)  # 1, 3, 1, 3, ...: mean 2, deviation 1
    assert 0.5 < result.learning_gradient_variation < 0.52  # step 3 to 19, one "3" more than "1"


def test_variation_while_learning_ends_where_the_game_is_won():
    norms = [5.0, 1.0, 3.0, 1.0, 3.0, *[0.0] * 15]  # the first tenth, two steps, is left out: 3, 1, 3
    won = Result(replace(curves(), reward=[0.1] * 5 + [0.95] * 15, gradient_norm=norms))
    assert won.learning_gradient_variation == pytest.approx((8 / 9) ** 0.5 / (7 / 3))
    assert won.gradient_variation > 2
    at_once = Result(replace(curves(), reward=[0.95] * 20, gradient_norm=[1.0, 1.0, 3.0, 1.0, *[9.0] * 16]))
    assert at_once.learning_gradient_variation == pytest.approx(0.5)  # two steps at least: 3, 1


def test_the_best_clip_is_chosen_by_the_end_then_by_speed():
    assert best_clip({0.1: (0.5, 0.9), 0.2: (0.9, 0.2)}) == 0.2
    assert best_clip({0.1: (0.995, 0.7), 0.2: (0.999, 0.6)}) == 0.1


def test_every_part_changes_one_thing_at_a_time():
    every = cases()
    for part, fields in (
        ("a", {"game", "cardinality_norm"}),  # both within the part, one at a time in each comparison
        ("b", {"reduction"}),
        ("c", {"game", "unit", "member_norm"}),
    ):
        variants = [case.variant for case in every if case.part == part]
        changed = {
            name for v in variants for name in v.__dataclass_fields__ if getattr(v, name) != getattr(variants[0], name)
        }
        assert changed == fields
    assert all(case.variant.clip == COMMON_CLIP for case in every)
    assert COMMON_CLIP in CLIPS
    assert len({(case.part, case.label) for case in every}) == len(every)


def outcomes(scores):
    """Outcomes of all cases; scores: label to (common, own), 0.5 where not given. Seeds differ by a hundredth."""

    def results(case, score):
        sizes = case.variant.game.set_sizes
        return [Result(curves(seed, score + 0.01 * seed, sizes)) for seed in range(4)]

    built = []
    for case in cases():
        common, own = scores.get(case.label, (0.5, 0.5))
        built.append(Outcome(case, results(case, common), results(case, own), 0.06, dict.fromkeys(CLIPS, 0.5)))
    return built


def test_intervals_and_paired_differences_by_hand():
    first, second = (outcomes({"K = 1": (0.5, score)})[0].own for score in (0.5, 0.6))
    assert interval(first, final).mean == pytest.approx(0.515)
    paired = difference(second, first, final)
    assert (paired.mean, paired.low, paired.high) == pytest.approx((0.1, 0.1, 0.1))  # each seed differs by the same


@pytest.mark.parametrize(
    ("sqrt", "verdict"),
    [
        ((0.5, 0.7), "supported"),
        ((0.4, 0.7), "supported (contradicted at the common clip range)"),
        ((0.5, 0.3), "contradicted"),
        ((0.5, 0.5), "not supported"),
        ((0.6, 0.5), "not supported (supported at the common clip range)"),
    ],
)
def test_verdicts_follow_the_intervals(sqrt, verdict):
    first = claims(outcomes({"K = 5, sqrt": sqrt}))[0]
    assert "no normalisation" in first.statement
    assert first.verdict == verdict


@pytest.mark.parametrize(
    ("early", "verdict"),
    [
        (0.8, "not supported (both win nearly everything; the first learns sooner)"),
        (0.2, "not supported (both win nearly everything; the first learns later)"),
        (0.5, "not supported (both win nearly everything; equally soon)"),
    ],
)
def test_where_everything_is_won_the_verdict_says_who_was_sooner(early, verdict):
    def won(outcome, early):
        runs = [Result(replace(r.curves, reward=[early] * 18 + [0.99, 0.99])) for r in outcome.own]
        return replace(outcome, own=runs)

    at = {"K = 5, sqrt": early, "K = 5, none": 0.5}
    every = [won(o, at[o.case.label]) if o.case.label in at else o for o in outcomes({})]
    assert claims(every)[0].verdict == verdict


def test_at_one_member_the_claim_needs_equal_runs():
    [same] = [c for c in claims(outcomes({})) if c.statement.startswith("At K = 1")]
    [other] = [c for c in claims(outcomes({"K = 1, member": (0.5, 0.6)})) if c.statement.startswith("At K = 1")]
    assert (same.verdict, other.verdict) == ("supported", "contradicted")
    assert other.here.endswith(": 0.1")


def test_parts_that_were_not_run_make_no_claims():
    only_b = [outcome for outcome in outcomes({}) if outcome.case.part == "b"]
    statements = [claim.statement for claim in claims(only_b)]
    assert any("event reduction" in statement for statement in statements)
    assert not any("K = 5 the square-root" in statement for statement in statements)


def test_the_page_says_what_came_out():
    page = render(outcomes({"K = 4, set": (0.7123, 0.8123)}), tuning=5)
    assert "0.727 [0.707, 0.748]" in page  # 0.7123 + 0.015, deviation 0.01291, t(3) = 3.182
    assert "+0.312 [+0.312, +0.312] at own clip ranges" in page
    assert "{" not in page
    assert "A quick try" not in page
    assert "A quick try" in render(outcomes({}), tuning=5, quick=True)


def test_what_other_runs_wrote_on_the_page_is_kept(tmp_path):
    page = tmp_path / "evidence.md"
    page.write_text(f"old text\n{STACK_BEGIN}\nthe real stack's table\n{STACK_END}\nold end\n")
    text = write_page(outcomes({}), tmp_path, tuning=5).read_text()
    assert text.endswith(f"{STACK_BEGIN}\nthe real stack's table\n{STACK_END}\n")
    assert "old text" not in text
    assert "old end" not in text


def test_the_page_and_its_figures_are_written(tmp_path):
    page = write_page(outcomes({}), tmp_path, tuning=5)
    named = {part.split(")")[0] for part in page.read_text().split("](figures/")[1:]}
    assert len(named) == 6
    assert named == {path.name for path in (tmp_path / "figures").iterdir()}
