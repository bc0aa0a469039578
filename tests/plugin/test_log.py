"""Warnings of this package are shown once, whatever a library did to the root logger."""

import logging
import sys

import pytest

from verl_srpo.log import UnlessRootShows, install_handler


@pytest.fixture
def root_level(monkeypatch):
    """Leaves the root logger one handler, of the level given; called in the test, after pytest has added its own."""

    def leave(level):
        handler = logging.NullHandler()
        handler.setLevel(level)
        monkeypatch.setattr(logging.root, "handlers", [handler])

    return leave


def own_handler():
    install_handler()
    install_handler()
    (handler,) = [h for h in logging.getLogger("verl_srpo").handlers if isinstance(h, UnlessRootShows)]
    return handler


@pytest.mark.parametrize(("level", "written"), [("ERROR", True), ("WARNING", False), ("NOTSET", False)])
def test_a_warning_is_written_where_the_root_logger_hides_it(root_level, level, written, capsys, monkeypatch):
    root_level(level)
    monkeypatch.setattr(own_handler(), "stream", sys.stderr)
    logging.getLogger("verl_srpo.trainer").warning("the clip cuts off 80%")
    assert ("the clip cuts off 80%" in capsys.readouterr().err) == written


def test_information_is_shown_by_default(root_level, capsys, monkeypatch):
    root_level("ERROR")
    monkeypatch.setattr(own_handler(), "stream", sys.stderr)
    logging.getLogger("verl_srpo.trainer").info("what was switched on")
    assert capsys.readouterr().err.count("what was switched on") == 1
