"""The beam of a search as a tree, and the score of each hypothesis split into its terms.

>>> nodes = [Branch(-1, "le", -0.1, 2), Branch(0, "chat", -0.4, 2, "best"), Branch(0, "chien", -2.0, 0, "dropped")]
>>> picture = BeamPicture("the cat", nodes, [("le chat", {"log P": -0.4, "length": 2.0, "rank": -0.2})], "it won")
>>> print(picture.to_terminal(width=40, color=False))
Beam of “the cat”: le chat
le ┬ chat  ★ -0.40 best
   └ chien  -2.00 dropped
hypothesis  log P  length  rank
le chat     -0.4   2       -0.2
it won
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Heat
from harken.inspection.figure.tree import Branch, Tree
from harken.inspection.figure.values import number
from harken.inspection.pictures.picture import Picture


class BeamPicture(Picture):
    """A tree of prefixes, and the terms of each hypothesis, best first.

    Args:
        source: what was translated.
        nodes: of the tree, parents first.
        hypotheses: each with its text and the terms of its score.
        reason: why the first one won, in words.
    """

    title = "Beam"

    def __init__(
        self,
        source: str,
        nodes: Sequence[Branch],
        hypotheses: Sequence[tuple[str, Mapping[str, float]]],
        reason: str,
    ) -> None:
        """
        Raises:
            UserError: nothing was found.
        """
        if not nodes or not hypotheses:
            raise UserError("the search found nothing to draw; give some words")
        self.source, self.nodes, self.hypotheses, self.reason = source, list(nodes), list(hypotheses), reason

    @property
    def heading(self) -> str:
        """The source and the best hypothesis."""
        return f"Beam of “{self.source}”: {self.hypotheses[0][0]}"

    def figures(self) -> list[Figure]:
        """The tree, then the terms of each score."""
        headings, _ = self.rows()
        values = [list(terms.values()) for _, terms in self.hypotheses]
        names = [name for name, _ in self.hypotheses]
        terms = Heat("", "", "", headings[1:], names, values, form="{:.3f}", signed=True)
        note = "Bold: the best hypothesis. Pale: prefixes that left the beam. Numbers: log-probabilities."
        return [
            Figure(self.heading, [Tree("", "log-probability", self.nodes)], note),
            Figure("Final scores and their terms", [terms], self.reason),
        ]

    def terminal_figures(self) -> list[Figure]:
        """The tree alone; the terms follow as a table."""
        return [Figure(self.heading, [Tree("", "log-probability", self.nodes)])]

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of the terms."""
        terms = list(self.hypotheses[0][1])
        return ["hypothesis", *terms], [
            [name, *(number(values[term]) for term in terms)] for name, values in self.hypotheses
        ]

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """The tree, the terms and the reason."""
        from harken.inspection.figure.text import columns

        headings, rows = self.rows()
        return "\n".join([super().to_terminal(width, color), *columns([headings, *rows]), self.reason])
