"""The exceptions that reach a user as one sentence."""

import signal


class UserError(Exception):
    """Something the user can correct: what was found, where, and what to do. The command line exits with 2."""


class MachineError(Exception):
    """The machine failed the run (out of memory, a killed worker): what happened and what to do. Exits with 1."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the work and everything is saved. Exits with 128 + number: 130 for Ctrl-C, 143 for SIGTERM."""

    def __init__(self, number: int = signal.SIGINT, message: str = "") -> None:
        super().__init__(message)
        self.number = number
