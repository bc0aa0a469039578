"""A stand-in for the module `torch.cuda` on top of `torch.cpu`: what verl calls through `get_torch_device()`."""

import resource
from types import ModuleType

import psutil
import torch


def _resident() -> int:
    return psutil.Process().memory_info().rss


def _peak_resident() -> int:
    # the kernel updates its peak less often than the present figure
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, _resident())


class CPUDeviceModule(ModuleType):
    """One device, always there. Memory figures are the process's; whatever is not here comes from `torch.cpu`."""

    def __getattr__(self, name: str):
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device) -> None:
        pass

    def synchronize(self, device=None) -> None:
        pass

    def get_device_name(self, device=None) -> str:
        return "CPU"

    def get_device_capability(self, device=None) -> tuple[None, None]:
        return (None, None)

    # random numbers: there is one generator

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device=None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device=None) -> None:
        torch.set_rng_state(state)

    # memory: the allocator is the C library's, there is no cache to empty and no statistic to reset

    def empty_cache(self) -> None:
        pass

    def ipc_collect(self) -> None:
        pass

    def memory_allocated(self, device=None) -> int:
        return _resident()

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device=None) -> int:
        return _peak_resident()

    max_memory_reserved = max_memory_allocated

    def reset_peak_memory_stats(self, device=None) -> None:
        pass

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Bytes that are free and in total, on the machine."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def set_per_process_memory_fraction(self, fraction: float, device=None) -> None:
        pass


device_module = CPUDeviceModule("torch_cpu_as_accelerator")
