"""Package metadata. Tool settings (ruff, pyright, pytest, import-linter) stand in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "verl_srpo" / "__init__.py").read_text())[1]

EXTRAS = {
    # antlr 4.9.3 is what hydra needs; math-verify's default pulls another one
    "math": ["math-verify>=0.9", "latex2sympy2_extended[antlr4_9_3]"],
    "search": ["tantivy>=0.27", "faiss-cpu>=1.15", "fastapi", "uvicorn", "httpx", "psutil"],
    "plots": ["matplotlib"],
    "dev": [
        "hypothesis",
        "import-linter",
        "pyright",
        "pytest",
        "pytest-asyncio",
        "pytest-timeout",
        "ruff",
    ],
}

setup(
    name="verl-srpo",
    version=VERSION,
    description="Setwise Relative Policy Optimization for multi-agent LLMs, as a plugin for verl",
    long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.13",
    # a namespace search, because `hydra_plugins` must not have an __init__.py (Hydra scans the namespace)
    packages=find_namespace_packages(include=["verl_srpo", "verl_srpo.*", "hydra_plugins", "hydra_plugins.*"]),
    package_data={"verl_srpo": ["config/*.yaml", "config/*/*.yaml"]},
    install_requires=["verl>=0.9.1,<0.10", "TransferQueue>=0.1.11", "rich"],
    extras_require={**EXTRAS, "all": sorted({d for deps in EXTRAS.values() for d in deps})},
    entry_points={
        # two names, so that VERL_USE_EXTERNAL_PLUGINS can choose: the CPU backend serves any estimator
        "verl.plugins": ["srpo = verl_srpo.plugin", "srpo_cpu = verl_srpo.backends.cpu.plugin"],
        "console_scripts": ["verl-srpo = verl_srpo.cli:main"],
    },
)
