"""The exceptions that reach a user as one sentence."""

import signal

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


class MachineError(UserError):
    """The machine failed the run (out of memory, a killed worker): what happened and what to do. Exits with 1."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the work and everything is saved. Exits with 128 + number: 130 for Ctrl-C, 143 for SIGTERM."""

    def __init__(self, number: int = signal.SIGINT, message: str = "") -> None:
        super().__init__(message)
        self.number = number
