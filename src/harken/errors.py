"""The exceptions that reach a user as one sentence."""

import signal
from importlib.util import find_spec

DISTRIBUTIONS = {"PIL": "Pillow", "sklearn": "scikit-learn", "multipart": "python-multipart"}  # of modules

# What ends a command and saves first; Windows has no SIGHUP.
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
LONGEST = 1000  # characters of a message; what a file holds may be quoted in it


def printable(text: str) -> str:
    """Text for a terminal: control characters, which may come from files and names, are escaped.

    >>> print(printable("\\x1b[31mred"))
    \\x1b[31mred
    """
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class UserError(Exception):
    """Something the user can correct: what was found, where, and what to do. The command line exits with 2.

    A message may quote files and names, so control characters are escaped and the middle of a long one is left out.

    >>> str(UserError("\\x1b[31m" + "a" * 5000 + "; choose another")).count("a") < 1000
    True
    """

    def __init__(self, message: object = "") -> None:
        text = printable(str(message))
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 300]} ... {text[-300:]}"
        super().__init__(text)


def missing_extra(module: str, extra: str, purpose: str) -> UserError:
    """The error for an optional package that is not installed.

    >>> print(missing_extra("PIL", "images", "a picture"))
    a picture needs Pillow, which is not installed; pip install "harken[images]"
    """
    package = DISTRIBUTIONS.get(module.partition(".")[0], module)
    return UserError(f'{purpose} needs {package}, which is not installed; pip install "harken[{extra}]"')


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Refuse to go on without an optional package.

    Args:
        module: the name that is imported.
        extra: the extra of harken that installs it.
        purpose: what needs it, the subject of the sentence.

    Raises:
        UserError: it is not installed; names the command that installs it.
    """
    if find_spec(module) is None:
        raise missing_extra(module, extra, purpose)


class MachineError(UserError):
    """The machine failed the run (out of memory, a killed worker): what happened and what to do. Exits with 1."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the work and everything is saved. Exits with 128 + number: 130 for Ctrl-C, 143 for SIGTERM."""

    def __init__(self, number: int = signal.SIGINT, message: str = "") -> None:
        super().__init__(message)
        self.number = number
