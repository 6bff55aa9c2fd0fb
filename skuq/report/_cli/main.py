"""Entry point of ``python -m skuq``: commands, exit codes, and errors on one line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from skuq.report._cli.errors import InputError, first_line
from skuq.report._cli.options import parser
from skuq.report._cli.report import run
from skuq.report._cli.versions import show_versions

SUCCESS, INTERNAL, INPUT = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    The exit code is 2 after an error in the files or options, and 1 after an error of skuq.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parser().parse_args(arguments)
        if options.command == "show-versions":
            show_versions()
        else:
            run(options, arguments)
    except (InputError, MemoryError, ImportError) as error:
        return fail(first_line(error), INPUT)
    except KeyboardInterrupt:
        return fail("interrupted; no page was written.", INPUT)
    except Exception as error:
        if "--traceback" in arguments:
            traceback.print_exc()
        message = first_line(error)
        # Messages of argument checks begin with the name of the argument.
        if isinstance(error, ValueError | TypeError) and message.startswith("`"):
            return fail(message, INPUT)
        return fail(
            f"internal error: {type(error).__name__}: {message} (pass --traceback to see where)", INTERNAL
        )
    return SUCCESS


def fail(message: str, code: int) -> int:
    print(f"skuq: error: {message}", file=sys.stderr)
    return code
