import math

import pytest
import torch
from hypothesis import strategies as st

from tests.core import reference
from tests.core.batches import cardinality_norms, for_all, make_batch, seeds
from verl_srpo.core import SetStatistics, as_metrics, member_log_ratio, set_statistics, srpo_loss

# sets of two: l = (0.6, 0.2), (-0.4, 0.0), (0.1, 0.1); a set of one: l = -0.5; a padding row
MEMBERS = torch.tensor([0.6, 0.2, -0.4, 0.0, 0.1, 0.1, -0.5, float("nan")], dtype=torch.float64)
SET_IDS = torch.tensor([1, 1, 2, 2, 3, 3, 4, -1])
ADVANTAGES = torch.tensor([2.0, 2.0, -1.0, -1.0, 0.5, 0.5, -3.0, float("nan")], dtype=torch.float64)


def test_statistics_by_hand():
    statistics = set_statistics(MEMBERS, SET_IDS, ADVANTAGES, clip_low=0.2, clip_high=0.3)
    assert list(statistics) == [1, 2]
    assert statistics[1] == SetStatistics(1, -0.5, 0.0, -0.5, 0.0, 0.0, 1.0, 0.0, -3.0)
    root, pair = math.sqrt(2), statistics[2]
    log_ratios = [0.8 / root, -0.4 / root, 0.2 / root]
    mean = sum(log_ratios) / 3
    assert pair.count == 3
    assert pair.log_ratio_mean == pytest.approx(mean)
    assert pair.log_ratio_std == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in log_ratios) / 3))
    assert pair.log_ratio_extreme == pytest.approx(0.8 / root)
    members = [0.5, 0.1, -0.5, -0.1, 0.0, 0.0]  # about their mean 0.1
    assert pair.member_variance == pytest.approx(sum(x * x for x in members) / 6)
    assert pair.pair_covariance == pytest.approx((0.5 * 0.1 + 0.5 * 0.1 + 0.0) / 3)
    # exp(0.566) is above 1.3 with A > 0; exp(-0.283) = 0.754 is below 0.8 with A < 0
    assert (pair.clip_low, pair.clip_high) == pytest.approx((1 / 3, 1 / 3))
    assert pair.advantage_mean == pytest.approx(0.5)


def test_clips_of_members_are_counted_a_member():
    statistics = set_statistics(MEMBERS, SET_IDS, ADVANTAGES, unit="member", clip_low=0.2, clip_high=0.3)
    # of six members: exp(0.6) above 1.3 with A > 0; exp(-0.4) below 0.8 with A < 0
    assert (statistics[2].clip_low, statistics[2].clip_high) == pytest.approx((1 / 6, 1 / 6))


def test_most_extreme_log_ratio_keeps_its_sign():
    members = torch.tensor([0.5, -0.9, 0.2])
    assert set_statistics(members, torch.tensor([1, 2, 3]), members)[1].log_ratio_extreme == pytest.approx(-0.9)
    assert set_statistics(-members, torch.tensor([1, 2, 3]), members)[1].log_ratio_extreme == pytest.approx(0.9)


@for_all(seed=seeds)
def test_two_terms_of_eq_5_make_up_the_variance(seed):
    batch = make_batch(seed, tasks=5, spread=0.5)
    members = member_log_ratio(batch.log_prob, batch.old_log_prob, batch.response_mask)
    for cardinality, one in set_statistics(members, batch.set_ids, batch.advantages).items():
        whole = one.member_variance + (cardinality - 1) * one.pair_covariance
        assert one.log_ratio_std**2 == pytest.approx(whole, rel=1e-9, abs=1e-12)


@for_all(seed=seeds, norm=cardinality_norms, unit=st.sampled_from(["set", "member"]))
def test_statistics_agree_with_the_loops(seed, norm, unit):
    batch = make_batch(seed, tasks=5, spread=0.5)
    members = member_log_ratio(batch.log_prob, batch.old_log_prob, batch.response_mask)
    statistics = set_statistics(members, batch.set_ids, batch.advantages, cardinality_norm=norm, unit=unit)
    sets = reference.members_of(batch.set_ids)
    assert set(statistics) == {len(rows) for rows in sets.values()}
    for cardinality, one in statistics.items():
        of_size = [rows for rows in sets.values() if len(rows) == cardinality]
        ratios = [float(reference.joint(list(members[rows]), norm)) for rows in of_size]
        advantage = [float(batch.advantages[rows[0]]) for rows in of_size]
        assert one.count == len(of_size)
        assert one.log_ratio_mean == pytest.approx(sum(ratios) / len(ratios), abs=1e-12)
        assert abs(one.log_ratio_extreme) == pytest.approx(max(map(abs, ratios)))
        assert one.advantage_mean == pytest.approx(sum(advantage) / len(advantage), abs=1e-12)
        clipped = list(zip(ratios, advantage, strict=True))
        if unit == "member":
            clipped = [(float(members[row]), float(batch.advantages[row])) for rows in of_size for row in rows]
        low = [math.exp(ratio) < 0.8 and a < 0 for ratio, a in clipped]
        high = [math.exp(ratio) > 1.2 and a > 0 for ratio, a in clipped]
        assert (one.clip_low, one.clip_high) == pytest.approx((sum(low) / len(low), sum(high) / len(high)))


@for_all(seed=seeds)
def test_clips_agree_with_those_of_the_loss(seed):
    batch = make_batch(seed, spread=0.5)
    members = member_log_ratio(batch.log_prob, batch.old_log_prob, batch.response_mask)
    for unit in ("set", "member"):
        _, metrics = srpo_loss(*batch.loss_arguments(), unit=unit)
        statistics = set_statistics(members, batch.set_ids, batch.advantages, unit=unit).values()
        for side in ("low", "high"):
            sets = sum(one.count * getattr(one, f"clip_{side}") for one in statistics)
            assert metrics[f"clip_fraction_{side}"] * metrics["sets"] == pytest.approx(sets)


def test_token_unit_has_no_clip_of_its_own_here():
    statistics = set_statistics(MEMBERS, SET_IDS, ADVANTAGES, unit="token")
    assert (statistics[2].clip_low, statistics[2].clip_high) == (None, None)
    assert not any("clip" in name for name in as_metrics(statistics))


def test_metrics_are_floats_under_names_that_verl_averages():
    metrics = as_metrics(set_statistics(MEMBERS, SET_IDS, ADVANTAGES), prefix="team")
    assert metrics["team/k2/count"] == 3.0
    assert metrics["team/k1/log_ratio_mean"] == -0.5
    assert len(metrics) == 18
    assert all(type(value) is float for value in metrics.values())
    # verl reduces a name that contains either by that function
    assert not [name for name in metrics if "max" in name or "min" in name]


def test_only_padding_has_no_statistics():
    assert set_statistics(torch.ones(2), torch.tensor([-1, -2]), torch.ones(2)) == {}
    empty = torch.zeros(0)
    assert set_statistics(empty, empty.long(), empty) == {}
