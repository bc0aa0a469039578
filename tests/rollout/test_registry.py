"""Workflows by name, by file, by module; what is not there is named with what is near."""

import pytest

from verl_srpo.rollout import (
    DefinitionError,
    Workflow,
    build_workflow,
    list_workflows,
    load_workflow,
    register_workflow,
)

FILE = """
from verl_srpo.rollout import Agent, Outcome, Workflow

class Solo(Workflow):
    agents = (Agent("solo"),)

    def __init__(self, words: int = 3):
        self.words = words

    async def run(self, task, team):
        return Outcome(answer=(await team.act({"solo": task.question})).text)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_built_in_workflows_are_there():
    assert {
        "demo/joint", "math/debate", "math/team", "math/solver_verifier", "search/team", "search/hierarchical",
        "search/parallel",
    } <= set(list_workflows())  # fmt: skip


def test_a_workflow_from_a_file_is_the_same_class_each_time(file):
    cls = load_workflow(f"{file}:Solo")
    assert issubclass(cls, Workflow) and cls is load_workflow(f"{file}:Solo")
    workflow, roster = build_workflow(f"{file}:Solo", {"words": 7}, {"solo": {"system": "Be brief."}})
    assert workflow.words == 7 and [(a.name, a.system) for a in roster] == [("solo", "Be brief.")]


def test_a_workflow_from_a_module():
    assert load_workflow("verl_srpo.workflows.math_debate:Debate") is load_workflow("math/debate")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("math/debait", r"no workflow 'math/debait'; did you mean 'math/debate'"),
        ("nowhere/there.py:Solo", r"there is no file nowhere/there\.py \(looked in /"),
        ("nowhere/there.py", r"say which class, as in nowhere/there\.py:MyWorkflow"),
        ("no_such_package.x:Solo", r"cannot import module 'no_such_package\.x'"),
        ("verl_srpo.workflows.math_debate:Debat", r"did you mean 'Debate'\?"),
        ("verl_srpo.rollout.agent:Agent", r"Agent in verl_srpo\.rollout\.agent: is not a subclass of Workflow"),
    ],
)
def test_what_does_not_exist_is_named(spec, message):
    with pytest.raises(DefinitionError, match=message):
        load_workflow(spec)


def test_a_missing_class_in_a_file_lists_what_is_there(file):
    with pytest.raises(DefinitionError, match="no workflow class 'Duo'; known: Solo"):
        load_workflow(f"{file}:Duo")


def test_a_file_that_fails_on_import_says_why(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import does_not_exist_at_all")
    with pytest.raises(DefinitionError, match=r"broken\.py fails on import: ModuleNotFoundError"):
        load_workflow(f"{path}:Any")
    path.write_text(FILE)  # once mended it loads: a failed import leaves nothing behind
    assert load_workflow(f"{path}:Solo")


def test_unknown_settings_are_named(file):
    with pytest.raises(DefinitionError, match=r"srpo\.workflow_kwargs\.word: .*did you mean 'words'"):
        build_workflow(f"{file}:Solo", {"word": 1})
    with pytest.raises(DefinitionError, match="n=0: a debate needs at least one solver"):
        build_workflow("math/debate", {"n": 0})


def test_a_name_belongs_to_one_class():
    with pytest.raises(DefinitionError, match=r"'math/debate' is already verl_srpo\.workflows\.math_debate\.Debate"):

        @register_workflow("math/debate")
        class Other(Workflow):
            async def run(self, task, team): ...

    with pytest.raises(DefinitionError, match="not a subclass of Workflow"):
        register_workflow("x/y")(int)
