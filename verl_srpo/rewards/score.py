"""The reward function in verl's form, for threads and for event loops."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from verl_srpo.rewards.extraction import after_think, gold_answers, last_answer_tag, last_boxed
from verl_srpo.rewards.grader_pool import Grade, shared_pool
from verl_srpo.rewards.math_answer import compare
from verl_srpo.rewards.registry import SEARCH, kind_of
from verl_srpo.rewards.search_answer import exact_match, token_f1

# what verl's reward managers hand to every custom function; rules have no use for it
_FROM_VERL = frozenset({"reward_router_address", "reward_model_tokenizer"})

Result = dict[str, float | str | None]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    r"""Scores one response by rule. Safe to call from any thread.

    Math: the last `\boxed{}` after `</think>` against any gold answer, by value. Search: the last
    `<answer>...</answer>` against any gold answer, by exact match.

    Args:
        data_source: names the kind of answer, see `registry.kind_of`.
        solution_str: the response, or the scored answer of a team.
        ground_truth: string, number, (nested) list or array of these, or a mapping with "target".
        extra_info: not used.
        options: what `reward.custom_reward_function.reward_kwargs` may hold:
            grader_seconds (default 10): limit of one math comparison; the process that exceeds it is killed, replaced;
            grader_processes (default 2 to 4, by the number of cores): the most that this process starts;
            data_sources: further names and the kind ("math" or "search") of each.

    Returns:
        The same keys for every data source, None where a value does not apply (verl's validation leaves None out):
        score, acc: 1.0 or 0.0;
        f1: token F1 (search);
        data_source: as given, so that verl's dumps of validation carry it;
        pred: the extracted answer, "" if there is none;
        grader_timeout, grader_error: 1.0 where a math answer has score 0.0 because its comparison exceeded the limit,
        or failed.

    Raises:
        ValueError: unknown data source or option, or a ground truth without an answer.
        GraderUnavailable: math-verify is missing or does not work.
    """
    scored = _begin(data_source, solution_str, ground_truth, options)
    if isinstance(scored, dict):
        return scored
    answer, future = scored
    return _math_result(data_source, answer, future.result())


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    """`compute_score` for an event loop: a comparison by the grader is awaited and holds none of the loop's threads.

    verl takes it with `reward.custom_reward_function.name=compute_score_async`.
    """
    scored = _begin(data_source, solution_str, ground_truth, options)
    if isinstance(scored, dict):
        return scored
    answer, future = scored
    return _math_result(data_source, answer, await asyncio.wrap_future(future))


def _begin(
    data_source: str, solution_str: str, ground_truth: Any, options: Mapping[str, Any]
) -> "Result | tuple[str, Future[Grade]]":
    """The result, or for an answer that takes computer algebra the answer and its grade to come."""
    limits, data_sources = _read_options(options)
    kind = kind_of(data_source, data_sources)
    try:
        golds = gold_answers(ground_truth)
    except ValueError as error:
        raise ValueError(f"data_source={data_source!r}: {error}") from None
    if kind == SEARCH:
        return _search_result(data_source, last_answer_tag(solution_str), golds)
    answer = last_boxed(after_think(solution_str))
    if not answer:
        return _math_result(data_source, "", Grade(False))
    verdict = compare(answer, golds)
    if isinstance(verdict, bool):
        return _math_result(data_source, answer, Grade(verdict))
    return answer, shared_pool(**limits).submit(verdict)


def _read_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, str] | None]:
    options = {name: value for name, value in options.items() if name not in _FROM_VERL}
    data_sources = options.pop("data_sources", None)
    names = {"grader_seconds": "seconds", "grader_processes": "size"}
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise ValueError(
            f"unknown reward option {', '.join(unknown)}; reward_kwargs may hold {', '.join(names)}, data_sources"
        )
    return {names[name]: value for name, value in options.items()}, data_sources


def _math_result(data_source: str, answer: str, grade: Grade) -> Result:
    score = float(grade.correct)
    return {
        "score": score,
        "acc": score,
        "f1": None,
        "data_source": data_source,
        "pred": answer,
        "grader_timeout": float(grade.timeout),
        "grader_error": float(grade.error is not None),
    }


def _search_result(data_source: str, answer: str | None, golds: list[str]) -> Result:
    score = exact_match(answer or "", golds)
    return {
        "score": score,
        "acc": score,
        "f1": token_f1(answer or "", golds),
        "data_source": data_source,
        "pred": answer or "",
        "grader_timeout": None,
        "grader_error": None,
    }
