"""Messages of commands beside their results: one logger, whose messages go to stderr as they are."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from harken.errors import printable


class StderrHandler(logging.Handler):
    """Prints messages on stderr as it is now; nothing where it was closed or its terminal is gone."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        with suppress(OSError, ValueError):
            print(printable(record.getMessage()), file=sys.stderr, flush=True)


logger = logging.getLogger("harken.cli")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.handlers = [StderrHandler()]
