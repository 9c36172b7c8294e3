"""A line of text to its words.

`words`: runs of letters, digits and marks, with the apostrophe or hyphen inside a word kept; `spaces`: what stands
between blanks, for text that is already cut into tokens.

>>> cutter("words", lower=True)("Don't panic: Rock-and-roll, 1968!")
["don't", 'panic', 'rock-and-roll', '1968']
>>> cutter("spaces", lower=False)("New_York is , in fact")
['New_York', 'is', ',', 'in', 'fact']
"""

from __future__ import annotations

import re
from collections.abc import Callable

from harken.errors import UserError

WORD = re.compile(r"\w+(?:['’-]\w+)*")
WAYS = ("words", "spaces")


def cutter(tokens: str = "words", lower: bool = True) -> Callable[[str], list[str]]:
    """The function that cuts a line.

    Raises:
        UserError: there is no such way of cutting.
    """
    if tokens not in WAYS:
        raise UserError(f'tokens is "{tokens}", which is no way to cut text: use {" or ".join(WAYS)}.')
    cut = str.split if tokens == "spaces" else WORD.findall
    return (lambda line: cut(line.lower())) if lower else cut
