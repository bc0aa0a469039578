"""The platform "cpu" for verl's registry."""

from contextlib import contextmanager
from types import ModuleType

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from .device import device_module


class _DeviceId(str):
    """The string "cpu", but 0 in an f-string.

    verl uses a device's id in both ways: `tensor.to(get_device_id())`, where an index would mean an accelerator, and
    `f"{get_device_name()}:{get_device_id()}"`.
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return format(0, spec)


class PlatformCPU(PlatformBase):
    """Every process is one device. Ray counts the devices as its resource "GPU", a logical one here: verl checks the
    cluster for that name, and Ray lets a machine without accelerators declare any number of them."""

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return device_module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # never chosen by detection, only by VERL_PLATFORM=cpu

    def current_device(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _DeviceId("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"  # what Ray sets for its resource "GPU"

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights travel through shared memory

    def cudart(self) -> None:
        return None


def register() -> None:
    """Make the platform known to verl."""
    if PlatformRegistry.get("cpu") is not PlatformCPU:
        PlatformRegistry.register(platform="cpu")(PlatformCPU)
