"""What verl's entry-point group `verl.plugins` imports, in every process that imports verl.

Nothing heavy may be imported here. Two of verl's modules are completed right after their own import: the trainers
(`verl.trainer.ppo.v1`) get dispatchers that build SRPO's trainer when `algorithm.adv_estimator=srpo`, and the algorithm
registries (`verl.trainer.ppo.core_algos`) learn the name `srpo`. verl logs a failing plugin at DEBUG only, so a failure
is logged here, at ERROR, with its reason.
"""

import logging

logger = logging.getLogger("verl_srpo")

SUPPORTED_VERL = ">=0.9.1,<0.10"


def _check_verl_version() -> None:
    from importlib.metadata import version

    from packaging.specifiers import SpecifierSet

    found = version("verl")
    # 0.10.0.dev0 sorts before 0.10 but is not below it, as pip sees it too
    if not SpecifierSet(SUPPORTED_VERL).contains(found, prereleases=True):
        raise RuntimeError(f"verl {found} is installed, but this version of verl_srpo works with verl {SUPPORTED_VERL}")


def _complete_trainers(module) -> None:
    from verl_srpo.trainer.dispatch import install_dispatchers

    install_dispatchers(module)


def _complete_registries(module) -> None:
    from verl_srpo.trainer.registries import register_names

    register_names(module)


def register() -> None:
    """Registers everything; safe to call twice. Raises with the reason when the plugin cannot work here."""
    from verl_srpo.import_hook import after_import
    from verl_srpo.log import install_handler

    install_handler()
    _check_verl_version()
    after_import("verl.trainer.ppo.v1", _complete_trainers)
    after_import("verl.trainer.ppo.core_algos", _complete_registries)


try:
    register()
except Exception as reason:
    logger.error("verl_srpo could not be registered, algorithm.adv_estimator=srpo will be unknown: %s", reason)
    raise
