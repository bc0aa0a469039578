"""Which kind of answer a `data_source` asks for."""

from collections.abc import Mapping

MATH, SEARCH = "math", "search"
KINDS = (MATH, SEARCH)

# verl's own preparation of the question-answering sets puts this before the name
SEARCH_PREFIX = "searchr1_"

# Keys are lower case. A hub name is also found by its part after the slash.
_DATA_SOURCES: dict[str, str] = {
    **dict.fromkeys(
        (
            "math",
            "arithmetic",
            "gsm8k",
            "math-lighteval",
            "math_dapo",
            "math_dapo_reasoning",
            "math-500",
            "math500",
            "dapo",
            "dapo_filter",
            "dapo-math-17k",
            "deepscaler",
            "deepscaler-preview",
            "deepscaler-preview-dataset",
            "aime",
            "aime24",
            "aime25",
            "aime_2024",
            "aime_2025",
            "amc23",
            "amc-23",
            "minerva",
            "minerva_math",
            "simplerl-minerva-math",
            "olympiadbench",
        ),
        MATH,
    ),
    **dict.fromkeys(
        (
            "search",
            "nq",
            "triviaqa",
            "popqa",
            "hotpotqa",
            "2wikimultihopqa",
            "musique",
            "bamboogle",
            "nq_hotpotqa",
            "nq_hotpotqa_train",
            "srpo_world",  # examples/search/make_world.py
        ),
        SEARCH,
    ),
}
# another set of the same name with another schema and answer format
_NOT_OURS = frozenset({"hothan/olympiadbench"})


def register_data_source(name: str, kind: str) -> None:
    """Scores `name` (matched without regard to case) as `kind`, "math" or "search", in this process.

    verl scores in processes of its own, so that a training run names its sets in the configuration instead:
    `+reward.custom_reward_function.reward_kwargs.data_sources.my_set=math`.

    Raises:
        ValueError: an empty name or an unknown kind.
    """
    if not name or not isinstance(name, str):
        raise ValueError(f"a data source needs a name, got {name!r}")
    _DATA_SOURCES[name.lower()] = _checked_kind(name, kind)


def known_data_sources() -> dict[str, str]:
    """The names that are known, in lower case, with the kind of each."""
    return dict(sorted(_DATA_SOURCES.items()))


def kind_of(data_source: str, extra: Mapping[str, str] | None = None) -> str:
    """The kind ("math" or "search") of a row's `data_source`.

    Args:
        data_source: with or without verl's `searchR1_` prefix; a hub name with or without its owner; any case. The
            first part may also be the kind itself: "math/my_set".
        extra: further names and their kinds, which win over the known ones.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    name = str(data_source).lower()
    for extra_name, kind in (extra or {}).items():
        if name == extra_name.lower():
            return _checked_kind(extra_name, kind)
    if name not in _NOT_OURS:
        bare = name.removeprefix(SEARCH_PREFIX)
        for candidate in (name, bare, bare.rpartition("/")[2], bare.partition("/")[0]):
            if candidate in _DATA_SOURCES:
                return _DATA_SOURCES[candidate]
        if bare.startswith("aime"):  # every year's, as verl has it
            return MATH
    raise ValueError(
        f"no scorer for data_source={data_source!r}. Known: {', '.join(sorted(_DATA_SOURCES))} (any case, with or "
        f"without the searchR1_ prefix or the owner of a hub name). To add one: "
        f"+reward.custom_reward_function.reward_kwargs.data_sources.NAME=math (or search), or "
        f"verl_srpo.rewards.register_data_source(name, kind)"
    )


def _checked_kind(name: str, kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"data source {name!r} has kind {kind!r}; allowed: {', '.join(KINDS)}")
    return kind
