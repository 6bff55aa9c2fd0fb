"""Errors of the command line."""

from __future__ import annotations


class InputError(Exception):
    """Error in the files or options of the user; its message is one line."""


def first_line(error: BaseException) -> str:
    """Return the message of an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
