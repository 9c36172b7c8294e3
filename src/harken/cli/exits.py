"""How a verb ends: 0 well, 2 with one sentence for a user's mistake, 130 after Ctrl-C, 1 with a traceback for a bug."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer

from harken.errors import UserError

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
PLACES = FULL | {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb` with every way of failing turned into a message on stderr and an exit code."""

    @functools.wraps(verb)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            verb(*arguments, **options)
            sys.stdout.flush()
        except UserError as error:
            if os.environ.get("HARKEN_DEBUG"):
                traceback.print_exc()
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            typer.echo(f"\nstopped{f': {stop}' if str(stop) else ''}", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # the reader, such as `head`, has had enough
            _forget_stdout()
            raise typer.Exit(0) from None
        except typer.Exit:
            raise
        except OSError as error:
            raise typer.Exit(_refused_place(error) if error.errno in PLACES else _own_failure(error)) from None
        except Exception as error:
            raise typer.Exit(_own_failure(error)) from None

    return run


def _refused_place(error: OSError) -> int:
    """A file or folder that the system does not give: it is said which, and what to do."""
    place = f"{error.filename} cannot be used" if error.filename is not None else "a file cannot be written"
    if error.errno in FULL:
        remedy = "make room, and run the command again (harken train with --resume goes on where it was)"
    else:
        remedy = "choose another place, or change who may use it"
    typer.echo(f"error: {place} ({error.strerror}); {remedy}", err=True)
    return 2


def _own_failure(error: Exception) -> int:
    traceback.print_exc()
    typer.echo(
        f"error: harken failed on its own account ({type(error).__name__}: {error}); please report this with "
        "the traceback above and the command you ran",
        err=True,
    )
    return 1


def _forget_stdout() -> None:
    """Send what is still buffered nowhere, so that Python does not complain about the closed pipe at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file of the system, as in a test
        return
