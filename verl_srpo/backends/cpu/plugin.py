"""What verl's entry-point group `verl.plugins` imports under the name `srpo_cpu`: the CPU backend, if asked for."""

import logging
import os

from verl_srpo.backends.cpu import activate

if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    try:
        activate()
    except Exception as reason:  # verl logs a failing plugin at DEBUG only
        logging.getLogger("verl_srpo").error("the CPU backend could not be activated: %s", reason)
        raise
