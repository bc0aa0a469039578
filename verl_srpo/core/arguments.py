"""Argument checks of the public functions; a failure is a ValueError with name, value and what is allowed."""

from collections.abc import Iterable

import torch
from torch import Tensor


def check_option(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of the `allowed` names."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}")


def check_number(name: str, value: object, *, low: float, high: float = float("inf")) -> None:
    """Raise unless `value` is a real number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name}={value!r} is not a number in [{low}, {high}]")


def check_ids(name: str, ids: Tensor) -> None:
    """Raise unless `ids` is a vector of integers."""
    _check_tensor(name, ids)
    if ids.dim() != 1 or ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise ValueError(f"{name} has shape {tuple(ids.shape)} and type {ids.dtype}; an integer vector (N,) is needed")


def check_matrix(name: str, matrix: Tensor) -> None:
    """Raise unless `matrix` is (N, T)."""
    _check_tensor(name, matrix)
    if matrix.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(matrix.shape)}; (N, T) is needed: rows by response tokens")


def check_floating(name: str, values: Tensor) -> None:
    """Raise unless `values` holds floating-point numbers."""
    _check_tensor(name, values)
    if not values.is_floating_point():
        raise ValueError(f"{name} has type {values.dtype}; a floating-point type is needed")


def check_like(name: str, values: Tensor, reference_name: str, reference: Tensor, *, dims: int) -> None:
    """Raise unless `values` matches the first `dims` dimensions (and has no more) and the device of `reference`."""
    _check_tensor(name, values)
    if values.shape != reference.shape[:dims]:
        wanted = tuple(reference.shape[:dims])
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}; {wanted} is needed, because {reference_name} has shape "
            f"{tuple(reference.shape)}"
        )
    if values.device != reference.device:
        raise ValueError(
            f"{name} is on {values.device} and {reference_name} on {reference.device}; both must be on one device"
        )


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}; a torch.Tensor is needed")
