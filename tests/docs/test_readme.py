"""What the README shows works as it stands."""

import re
from pathlib import Path

from tests.rollout.scripted import ScriptedLLM, run
from verl_srpo.cli import build_parser
from verl_srpo.rollout import build_workflow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


async def test_the_workflow_runs_as_printed(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.strip().splitlines()) <= 30
    (tmp_path / "team.py").write_text(code)
    workflow, _ = build_workflow(f"{tmp_path}/team.py:DraftAndMerge")
    episode = await run(workflow, ScriptedLLM({"optimist": "yes", "sceptic": "no", "editor": "perhaps"}))
    assert [event.size for event in episode.events] == [2, 1]
    assert episode.outcome.answer == "perhaps"


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_two_commands_are_there():
    for script in re.findall(r"^bash (\S+)", README, re.MULTILINE):
        assert (ROOT / script).is_file(), script


def test_every_subcommand_that_is_named_exists():
    parser = build_parser()
    known = next(action for action in parser._actions if action.dest == "command").choices
    named = set(re.findall(r"`?verl-srpo ([a-z-]+)", README))
    assert named and named <= set(known)
