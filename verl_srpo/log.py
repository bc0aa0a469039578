"""Makes sure that what this package logs is seen.

verl's task runner ends up with a root handler that shows errors only, set by a library that it imports; a warning about
a run that is about to collapse must not go under with that.
"""

import logging
import os


class UnlessRootShows(logging.StreamHandler):
    """Writes to stderr the records that no handler of the root logger would show."""

    def filter(self, record: logging.LogRecord):
        shown = any(record.levelno >= handler.level for handler in logging.root.handlers)
        return False if shown else super().filter(record)


def install_handler() -> None:
    """Gives the logger `verl_srpo` its handler, once a process; `VERL_LOGGING_LEVEL` sets the level, default INFO."""
    logger = logging.getLogger("verl_srpo")
    if any(isinstance(handler, UnlessRootShows) for handler in logger.handlers):
        return
    handler = UnlessRootShows()
    handler.setFormatter(logging.Formatter("%(levelname)s:%(asctime)s:%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))
