"""OmegaConf resolvers that `verl_srpo/config/backend/cpu.yaml` uses."""

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

import ray
from omegaconf import OmegaConf

RUN_DIR_VARIABLE = "VERL_CPU_RUN_DIR"
# A Unix socket's path takes 107 bytes, of which Ray's session folder and socket names need 65.
_LONGEST_PARENT = 20


@functools.cache
def run_dir() -> str:
    """The folder of this run's sockets and Ray session: new in the driver, the driver's in a worker.

    Every run has its own, so that runs side by side share nothing; it goes away with the driver. To keep Ray's own
    logs, give a folder of yours: `ray_kwargs.ray_init._temp_dir=/tmp/kept`.
    """
    if ray.is_initialized() and RUN_DIR_VARIABLE in os.environ:
        return os.environ[RUN_DIR_VARIABLE]
    parent = tempfile.gettempdir()
    if len(parent) > _LONGEST_PARENT:
        parent = "/tmp"
    _remove_orphans(Path(parent))
    path = tempfile.mkdtemp(prefix=f"verl-{os.getpid()}-", dir=parent)
    os.environ[RUN_DIR_VARIABLE] = path  # inherited by the workers
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, owner: int) -> None:
    if os.getpid() != owner:  # a forked child
        return
    ray.shutdown()  # exit handlers run last in, first out: Ray's own would come after this one
    shutil.rmtree(path, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    """Folders of this user's drivers that were killed and could not tidy up."""
    for folder in parent.glob("verl-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


def logical_cpus(ranks: int) -> int:
    """CPUs that Ray is told of. Only bookkeeping: verl's processes for one rank ask for up to 8, most of them idle."""
    return 8 * int(ranks)


def register() -> None:
    """Make the resolvers known to OmegaConf in this process."""
    OmegaConf.register_new_resolver("cpu_run_dir", run_dir, replace=True)
    OmegaConf.register_new_resolver("cpu_logical_cpus", logical_cpus, replace=True)
