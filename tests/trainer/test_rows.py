"""Tags of rows are checked before anything is computed from them."""

import numpy as np
import pytest

from verl_srpo.trainer.rows import FLOAT_COLUMNS, INT_COLUMNS, Rows, apart, complete_rows


def make_rows(**columns):
    """Two episodes of a task: a set of two, then a set of one, each."""
    base = {
        "set_id": [10, 10, 11, 20, 20, 21],
        "state_id": [1, 1, 2, 3, 3, 4],
        "member_index": [0, 1, 0, 0, 1, 0],
        "set_size": [2, 2, 1, 2, 2, 1],
        "event_index": [0, 0, 1, 0, 0, 1],
        "agent_id": [0, 1, 2, 0, 1, 2],
        "tagged": [1] * 6,
        "episode": [0, 0, 0, 1, 1, 1],
    }
    zeros = {name: [0] * 6 for name in (*INT_COLUMNS, *FLOAT_COLUMNS, "task")}
    dtypes = dict.fromkeys(FLOAT_COLUMNS, np.float64)
    return Rows(**{name: np.array(values, dtype=dtypes.get(name)) for name, values in (zeros | base | columns).items()})


KEYS = [f"t_{e}_{i}" for e in (0, 1) for i in range(3)]


def test_complete_sets_are_kept():
    assert complete_rows(make_rows(), KEYS).all()


def test_an_incomplete_set_is_removed_whole_and_never_shrunk():
    complete = complete_rows(make_rows(set_size=[3, 3, 1, 2, 2, 1]), KEYS)
    assert complete.tolist() == [False, False, True, True, True, True]


@pytest.mark.parametrize("column", ["state_id", "event_index", "event_reward", "event_return"])
def test_members_that_disagree_name_set_column_and_rows(column):
    rows = make_rows()
    getattr(rows, column)[4] += 5
    with pytest.raises(ValueError, match=rf"members of set 20 disagree on {column}: row t_1_0 .* row t_1_1"):
        complete_rows(rows, KEYS)


def test_tags_on_some_rows_only_name_the_rows():
    with pytest.raises(ValueError, match=r"2 of 6 rows have no set tags \(t_0_2, t_1_0, ...\).*agent_name"):
        complete_rows(make_rows(tagged=[1, 1, 0, 0, 1, 1]), KEYS)


def test_a_member_twice_is_an_error():
    with pytest.raises(ValueError, match=r"set 10 has 2 rows for set_size=2; row t_0_1 with member_index=0"):
        complete_rows(make_rows(member_index=[0, 0, 0, 0, 1, 0]), KEYS)


def test_too_many_rows_are_an_error():
    with pytest.raises(ValueError, match=r"set 20 has 2 rows for set_size=1"):
        complete_rows(make_rows(set_size=[2, 2, 1, 1, 1, 1], member_index=[0, 1, 0, 0, 0, 0]), KEYS)


def test_two_episodes_never_share_a_set():
    with pytest.raises(ValueError, match="disagree on episode"):
        complete_rows(make_rows(episode=[0, 1, 0, 1, 1, 1]), KEYS)


def test_field_report_09_padding_rows_are_in_no_set():
    rows = make_rows().take(np.array([0, 1, -1, 2, -1]))
    assert rows.set_id.tolist() == [10, 10, -3, 11, -5]
    assert rows.agent_id.tolist() == [0, 1, 0, 2, 0]


def test_apart_makes_every_output_its_own_set():
    rows = apart(make_rows())
    assert len(set(rows.set_id.tolist())) == 6
    assert rows.set_size.tolist() == [1] * 6 and rows.member_index.tolist() == [0] * 6
    assert complete_rows(rows, KEYS).all()
