"""`verl-srpo workflows`."""

import json

from verl_srpo.cli import main
from verl_srpo.rollout import list_workflows


def test_the_list_as_json(capsys):
    assert main(["workflows", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(list_workflows()) <= set(rows)
    debate = rows["math/debate"]
    assert debate["agents"] == ["solver1", "solver2", "judge"]
    assert (debate["kind"], debate["sets"], debate["settings"]) == ("math", "2 (solvers), then 1 (judge)", {"n": 2})
    assert all(row["kind"] and row["sets"] and row["agents"] for row in rows.values())


def test_the_list_as_a_table(capsys):
    assert main(["workflows"]) == 0
    assert "math/debate" in capsys.readouterr().out
