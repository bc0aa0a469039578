"""Dataclass, YAML, presets and the documentation's table say the same."""

import dataclasses
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from verl_srpo.config import SRPOSettings, WarningThresholds
from verl_srpo.config.settings import CHOICES

FOLDER = Path(__file__).parents[2] / "verl_srpo" / "config" / "srpo"
PRESETS = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "default")


def composed(*overrides, name="ppo_trainer"):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(name, list(overrides))


def test_yaml_holds_every_setting_with_the_dataclass_default():
    yaml = OmegaConf.to_container(OmegaConf.load(FOLDER / "default.yaml"))
    assert yaml == dataclasses.asdict(SRPOSettings())


def test_both_ways_of_composing_give_the_same():
    from_group = composed("algorithm.adv_estimator=srpo", "+srpo=srpo")
    from_name = composed(name="srpo_trainer")
    assert from_group == from_name
    assert SRPOSettings.from_config(from_group) == SRPOSettings()


def test_missing_section_means_defaults():
    assert SRPOSettings.from_config(composed()) == SRPOSettings()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_compose_and_carry_their_own_name(preset):
    assert SRPOSettings.from_config(composed(f"+srpo={preset}")).preset == preset


EXPECTED = {
    "srpo": {},
    "joint_sum": {"cardinality_norm": "none"},
    "joint_mean": {"cardinality_norm": "mean"},
    "token_reduced": {"event_reduction": "token_mean"},
    "srpo_length_free": {"member_norm": "mean"},
    "grpo": {"unit": "token", "scope": "task"},
    "gspo": {"unit": "member", "member_norm": "mean"},
    "dr_mas": {"active_set": "output", "unit": "token", "count": "set"},
    "at_grpo": {"active_set": "output", "unit": "token", "scope": "signature_event", "count": "set"},
}


def test_presets_change_what_they_say_and_nothing_else():
    assert sorted(EXPECTED) == PRESETS
    for preset, changes in EXPECTED.items():
        expected = dataclasses.replace(SRPOSettings(), preset=preset, **changes)
        assert SRPOSettings.from_config(composed(f"+srpo={preset}")) == expected, preset


def test_preset_is_overridden_by_the_command_line():
    settings = SRPOSettings.from_config(composed("+srpo=joint_mean", "srpo.scope=task", "+srpo.agents.alice.top_p=0.5"))
    assert (settings.cardinality_norm, settings.scope) == ("mean", "task")
    assert settings.agents == {"alice": {"top_p": 0.5}}


@pytest.mark.parametrize("name", CHOICES)
def test_unknown_option_value_names_option_value_and_choices(name):
    with pytest.raises(ValueError, match=rf"srpo\.{name}='sideways' is not one of .*{CHOICES[name][0]}"):
        SRPOSettings.from_mapping({name: "sideways"})


def test_unknown_setting_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"unknown setting srpo\.cardinalty_norm; did you mean srpo\.cardinality_norm"):
        SRPOSettings.from_mapping({"cardinalty_norm": "sqrt"})
    with pytest.raises(ValueError, match=r"unknown setting srpo\.warn\.clip; (did|known: )"):
        SRPOSettings.from_mapping({"warn": {"clip": 0.1}})


@pytest.mark.parametrize(
    "given",
    [
        {"unit": "token", "cardinality_norm": "mean"},
        {"unit": "member", "cardinality_norm": "none"},
        {"unit": "token", "member_norm": "mean"},
        {"unit": "member", "set_importance_threshold": 2.0},
        {"active_set": "output", "cardinality_norm": "mean"},
    ],
)
def test_field_report_07_options_without_effect_are_refused_with_the_reason(given):
    with pytest.raises(ValueError, match=r"(has no effect|weighs whole sets).* use "):
        SRPOSettings.from_mapping(given)


@pytest.mark.parametrize(
    "given", [{"invalid_penalty": -0.1}, {"refill_attempts": -1}, {"call_timeout": 0}, {"poll_interval": -1.0}]
)
def test_values_out_of_range_name_the_setting(given):
    (name,) = given
    with pytest.raises(ValueError, match=rf"srpo\.{name}=.* must be"):
        SRPOSettings.from_mapping(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"truncate_prompts": "no"}, r"srpo\.truncate_prompts='no' must be of type bool \(true or false\)"),
        ({"warn": {"stop": "off"}}, r"srpo\.warn\.stop='off' must be of type bool"),
        ({"invalid_penalty": "much"}, r"srpo\.invalid_penalty='much' must be of type float$"),
        ({"invalid_penalty": float("nan")}, r"srpo\.invalid_penalty=nan must be a finite number"),
        ({"call_timeout": True}, r"srpo\.call_timeout=True must be of type float or null"),
        ({"transcripts": 1.5}, r"srpo\.transcripts=1.5 must be of type int"),
        ({"workflow": 3}, r"srpo\.workflow=3 must be of type str or null"),
        ({"warn": {"patience": 0}}, r"srpo\.warn\.patience=0 must be at least 1"),
        ({"warn": {"clip_fraction": -1}}, r"srpo\.warn\.clip_fraction=-1 must be at least 0, or null"),
        ({"warn": 3}, r"srpo\.warn=3 is not a section"),
        ({"agents": ["alice"]}, r"srpo\.agents=\['alice'\] is not a section"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_setting(given, said):
    with pytest.raises(ValueError, match=said):
        SRPOSettings.from_mapping(given)


def test_an_importance_weight_for_another_unit_points_to_no_option_that_is_refused():
    """The trainer refuses `rollout_correction.rollout_is` whatever the unit: it is no way out."""
    with pytest.raises(ValueError, match=r"srpo.unit=token has no set ratio") as refused:
        SRPOSettings.from_mapping({"unit": "token", "set_importance_threshold": 2.0})
    assert "rollout_is" not in str(refused.value)


def test_thresholds_are_read():
    settings = SRPOSettings.from_mapping({"warn": {"clip_fraction": None, "stop": True}})
    assert settings.warn == dataclasses.replace(WarningThresholds(), clip_fraction=None, stop=True)


DOCS = Path(__file__).parents[2] / "docs"


def table(page, heading):
    """Cells of the rows of the first table whose header starts with `heading`, without backticks."""
    lines = (DOCS / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.replace("\\|", "/").split("|")[1:-1]])
    return rows


def flat(values, prefix=""):
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def test_the_documented_settings_are_all_there_with_their_defaults():
    documented = {row[0]: row[1] for row in table("settings.md", "setting")}
    real = {
        name: OmegaConf.to_yaml({"x": value})[3:].strip() for name, value in flat(dataclasses.asdict(SRPOSettings()))
    }
    assert documented == real


def test_the_documented_presets_change_what_they_really_change():
    documented = {row[0]: dict(change.split("=") for change in row[1].split()) for row in table("presets.md", "preset")}
    assert documented == EXPECTED
