"""How surprising every token of a text was to a language model: -log p of the token given all before it, in nats.

Tokens stand in the order of the text with a bar above each. The perplexity is the exponential of the mean of the bars.
Shannon (1951), "Prediction and Entropy of Printed English"; Hale (2001), on surprisal and reading.

>>> print(Surprisal(["the", "cat", "flies"], [0.5, 1.0, 4.0]).to_terminal(width=40, color=False))
the    ███▍                         0.50
cat    ██████▊                      1.00
flies  ███████████████████████████  4.00
A high bar is a token that the model did
not expect. Mean 1.83 nats, perplexity
6.25
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Tokens
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.pieces import piece_names

LEAST = 2.0  # nats that a full bar means at least: a text without surprises looks like one


class Surprisal(Picture):
    """Tokens and their nats."""

    caption = "A high bar is a token that the model did not expect."

    def __init__(self, tokens: Sequence[str], nats: Sequence[float], title: str = "Surprisal") -> None:
        """
        Raises:
            UserError: not one number for every token, or numbers that are not finite.
        """
        if len(tokens) != len(nats):
            raise UserError(f"there are {len(tokens)} tokens and {len(nats)} numbers; give one for each")
        if not tokens or not all(math.isfinite(value) for value in nats):
            raise UserError("surprisal needs at least one token and a finite number for each")
        self.tokens, self.nats, self.title = [str(token) for token in tokens], [float(value) for value in nats], title
        self.names = [shown(name) for name in piece_names(self.tokens)]

    @property
    def heading(self) -> str:
        """The title and the token that was expected least."""
        most = max(range(len(self.nats)), key=self.nats.__getitem__)
        return f"{self.title}: “{self.names[most]}” was expected least ({self.nats[most]:.1f} nats)"

    @property
    def summary(self) -> str:
        """The mean in words."""
        mean = sum(self.nats) / len(self.nats)
        return f"Mean {mean:.2f} nats, perplexity {math.exp(min(mean, 700)):.2f}"

    def panel(self) -> Tokens:
        """Bars over tokens."""
        high = max(LEAST, *self.nats)
        return Tokens("", self.names, [max(nats, 0.0) for nats in self.nats], "nats", high)

    def figures(self) -> list[Figure]:
        panel = self.panel()
        return [Figure(self.heading, [panel], f"{self.summary}; a full bar is {panel.high:.1f} nats")]

    def terminal_figures(self) -> list[Figure]:
        return [Figure("", [self.panel()], self.summary)]


def shown(token: str) -> str:
    """A token that can be seen: a space as ␣."""
    return token.replace(" ", "␣") or "∅"
