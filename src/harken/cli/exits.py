"""Exit codes: 0 success; 2 a user's error, in one sentence; 1 an internal error, or a machine that failed the run;
128 + n after signal n (130 Ctrl-C, 143 SIGTERM, 129 a lost terminal).
"""

from __future__ import annotations

import errno
import functools
import math
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import typer

from harken.cli.messages import logger
from harken.errors import STOP_SIGNALS, Interrupted, MachineError, UserError

OPTIONS = {  # arguments in Python -> options
    "resume=True": "--resume",
    "restart=True": "--restart",
    "accept_changed_data=True": "--accept-changed-data",
}
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
    errno.EIO,
    errno.ELOOP,
    errno.ENXIO,
    errno.ENODEV,
}


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb` with every way of failing turned into a message on stderr and an exit code."""

    @functools.wraps(verb)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            raise_on_signals()
            warnings.showwarning = show_warning
            require_finite(options)
            verb(*arguments, **options)
            if sys.stdout is not None:
                sys.stdout.flush()
        except UserError as error:
            if os.environ.get("HARKEN_DEBUG"):
                traceback.print_exc()
            logger.error(f"error: {in_options(str(error))}")
            raise typer.Exit(1 if isinstance(error, MachineError) else 2) from None
        except KeyboardInterrupt as stop:
            logger.error(f"\nstopped{f': {stop}' if str(stop) else ''}")
            raise typer.Exit(128 + getattr(stop, "number", signal.SIGINT)) from None
        except BrokenPipeError:  # the reader, such as `head`, has had enough
            _forget_stdout()
            raise typer.Exit(0) from None
        except MemoryError:
            logger.error("error: this machine ran out of memory; use smaller inputs, batches or models")
            raise typer.Exit(1) from None
        except typer.Exit:
            raise
        except OSError as error:
            raise typer.Exit(_refused_place(error) if error.errno in PLACES else _own_failure(error)) from None
        except Exception as error:
            raise typer.Exit(_own_failure(error)) from None

    return run


def in_options(message: str) -> str:
    """A message of the Python calls in terms of the command line.

    >>> in_options("it is not empty; continue the run in it with resume=True")
    'it is not empty; continue the run in it with --resume'
    """
    for argument, option in OPTIONS.items():
        message = message.replace(argument, option)
    return message


def show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning on stderr as one line, without the line of code that gave it."""
    logger.error(f"{'note' if issubclass(category, FutureWarning) else 'warning'}: {UserError(message)}")


def require_finite(options: Mapping[str, Any]) -> None:
    """Refuse NaN and infinity as the value of an option; the bounds of typer let NaN through.

    Raises:
        UserError: with the option.
    """
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"--{name.replace('_', '-')} is {value}, which is no number to compute with; give another")


def raise_on_signals() -> None:
    """SIGTERM and SIGHUP end a verb as Ctrl-C does: files are closed, locks released, training saved."""
    if threading.current_thread() is not threading.main_thread():
        return

    def stop(number: int, frame: Any) -> None:
        raise Interrupted(number)

    for number in STOP_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # not SIGINT; nohup ignores SIGHUP, and that is respected
            signal.signal(number, stop)


def _refused_place(error: OSError) -> int:
    """A file or folder that the system does not give: it is said which, and what to do."""
    subject = f"{error.filename} cannot be used" if error.filename is not None else "a file cannot be written"
    if error.errno in FULL:
        remedy = "free some space and run the command again (harken train continues with --resume)"
    else:
        remedy = "choose another place, or change its permissions"
    logger.error(f"error: {UserError(f'{subject} ({error.strerror}); {remedy}')}")
    return 2


def _own_failure(error: Exception) -> int:
    if type(error).__name__ == "OutOfMemoryError":  # torch's, whether or not torch was imported here
        logger.error("error: the GPU ran out of memory; use smaller batches or a smaller model, or --device cpu")
        return 1
    traceback.print_exc()
    logger.error(
        f"internal error: {type(error).__name__}: {UserError(error)}; please report this with the traceback above "
        "and the command you ran"
    )
    return 1


def _forget_stdout() -> None:
    """Send what is still buffered nowhere, so that Python does not complain about the closed pipe at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file of the system, as in a test
        return
