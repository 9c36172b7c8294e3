"""Tables of weights as shades: alignments, confusions, weights over words, hops over facts.

Columns across, rows down, every cell from 0 to 1; a weight that rounds to 0 is left blank.

>>> table = ShadeTable(["the", "cat"], ["DET", "NOUN"], [[0.9, 0.1], [0.1, 0.9]], "Tags", across="word", down="tag")
>>> print(table.to_terminal(width=40, color=False))
Tags
      the   cat
DET   █ .90 ░ .10
NOUN  ░ .10 █ .90
The deeper the shade, the larger the
weight; blank is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Heat
from harken.inspection.figure.values import left_to_right
from harken.inspection.pictures.inputs import checked_weights
from harken.inspection.pictures.picture import Picture

UNKNOWN_NOTE = "In brackets: words that the model has never seen; what it makes of them is a guess."
LONGEST = 400  # letters of a title made of a sentence pair


class ShadeTable(Picture):
    """Weights with the names of their columns and rows."""

    caption = "The deeper the shade, the larger the weight; blank is 0."

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[str],
        weights: npt.ArrayLike,
        title: str | None = None,
        across: str = "column",
        down: str = "row",
    ) -> None:
        """
        Args:
            weights: (rows, columns), each from 0 to 1.
            across: what one column is.
            down: what one row is.

        Raises:
            UserError: weights that do not fit the names, NaN, or numbers that are no weights.
        """
        self.columns, self.rows = [str(name) for name in columns], [str(name) for name in rows]
        self.across, self.down = across, down
        self.weights = checked_weights(weights, (len(self.rows), len(self.columns)), f"{down}s x {across}s")
        self.title = title or ""

    @property
    def size(self) -> str:
        """`2 target words by 3 source words`."""
        counts = ((self.rows, self.down), (self.columns, self.across))
        return " by ".join(f"{len(names)} {what}{'' if len(names) == 1 else 's'}" for names, what in counts)

    def panel(self, title: str = "") -> Heat:
        """The table as a panel of a figure."""
        weights = self.weights.tolist()
        return Heat(title, self.across, self.down, self.columns, self.rows, weights, 0.0, 1.0, "{:.2f}")

    def figures(self) -> list[Figure]:
        return [Figure(self.heading, [self.panel()])]

    def terminal_figures(self) -> list[Figure]:
        return [Figure(self.title, [self.panel()])]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


class AlignmentMap(ShadeTable):
    """Which source words each target word was made from: attention weights, source across, target down.

    As in figure 3 of Bahdanau et al. (2015), "Neural Machine Translation by Jointly Learning to Align and Translate".

    >>> print(AlignmentMap(["the", "cat"], ["le", "chat"], [[0.9, 0.1], [0.2, 0.8]]).to_terminal(40, color=False))
          the   cat
    le    █ .90 ░ .10
    chat  ░ .20 █ .80
    Each row sums to 1: how much a target
    word takes from each source word.
    """

    def __init__(
        self,
        source_words: Sequence[str],
        target_words: Sequence[str],
        weights: npt.ArrayLike,
        title: str | None = None,
        unknown: Sequence[int] = (),
        unit: str = "word",
    ) -> None:
        """
        Args:
            weights: (target words, source words), each from 0 to 1.
            title: what stands above the picture; the two sentences by default.
            unknown: source words, counted from 0, that the model has never seen; shown in brackets.
            unit: what a row or column is: "word" or "piece".

        Raises:
            UserError: weights that do not fit the words, NaN, or numbers that are no weights.
        """
        super().__init__(source_words, target_words, weights, title, across=f"source {unit}", down=f"target {unit}")
        self.unknown = sorted(unknown)
        self.caption = f"Each row sums to 1: how much a {self.down} takes from each {self.across}."

    @property
    def source_words(self) -> list[str]:
        """The words across."""
        return self.columns

    @property
    def target_words(self) -> list[str]:
        """The words down."""
        return self.rows

    def panel(self, title: str = "") -> Heat:
        """The table as a panel of a figure, unknown words in brackets."""
        names = [f"[{word}]" if at in self.unknown else word for at, word in enumerate(self.columns)]
        return replace(super().panel(title), columns=names)

    @property
    def note(self) -> str:
        """The strongest link, and what brackets mean."""
        return " ".join(part for part in (self.strongest, UNKNOWN_NOTE if self.unknown else "") if part)

    @property
    def heading(self) -> str:
        """The title, or the two sentences."""
        pair = " → ".join(left_to_right(" ".join(words)) for words in (self.columns, self.rows))
        return self.title or (pair if len(pair) <= LONGEST else pair[: LONGEST - 1] + "…")

    @property
    def strongest(self) -> str:
        """The strongest link in words."""
        if not self.weights.size:
            return ""
        row, column = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        link = f"{left_to_right(self.rows[row])} ← {left_to_right(self.columns[column])}"
        return f"Strongest link: {link}, {self.weights[row, column]:.2f}."

    def figures(self) -> list[Figure]:
        return [Figure(self.heading, [self.panel()], self.note)]

    def terminal_figures(self) -> list[Figure]:
        return [Figure(self.title, [self.panel()], UNKNOWN_NOTE if self.unknown else "")]


class WordWeights(ShadeTable):
    """The words that a model went by in a text: words across, a row of weights for each method.

    Attention says where a network reads, which may be a word that says nothing: it can carry what stands around it.

    >>> picture = WordWeights(["not", "good"], {"attention": [0.5, 1.0], "gradient": [1.0, 0.2]}, "negative 0.97")
    >>> print(picture.to_terminal(width=60, color=False))
    negative 0.97; the largest of a row is 1
               not   good
    attention  ▓ .50 █ 1.0
    gradient   █ 1.0 ░ .20
    The deeper a word, the more the method gives to it; where a
    network reads is not yet why it decides.
    """

    caption = "The deeper a word, the more the method gives to it; where a network reads is not yet why it decides."

    def __init__(self, words: Sequence[str], rows: Mapping[str, npt.ArrayLike], title: str) -> None:
        """
        Raises:
            UserError: weights that do not fit the words, or are no weights.
        """
        weights = np.stack([np.asarray(row, dtype=np.float64) for row in rows.values()])
        heading = f"{title}; the largest of a row is 1" if len(rows) > 1 else f"{title}; the largest is 1"
        super().__init__(words, list(rows), weights, heading, across="word", down="method")


class ConfusionMatrix(ShadeTable):
    """Which label is taken for which: true labels down, predictions across, shares of a row.

    >>> print(ConfusionMatrix([[9, 1], [2, 8]], ["no", "yes"]).to_terminal(width=80, color=False))
    Confusion: 17 of 20 right; true labels down, predictions across
         no    yes
    no   █ .90 ░ .10
    yes  ░ .20 █ .80
    Each row sums to 1; shades off the diagonal are mistakes.
    """

    caption = "Each row sums to 1; shades off the diagonal are mistakes."

    def __init__(self, counts: npt.ArrayLike, labels: Sequence[str], title: str | None = None) -> None:
        """
        Args:
            counts: (labels, labels), a row for each true label.

        Raises:
            UserError: counts that do not fit the labels.
        """
        self.counts, self.labels = np.asarray(counts, dtype=np.int64), [str(label) for label in labels]
        if self.counts.shape != (len(self.labels), len(self.labels)):
            raise UserError(
                f"the counts are {self.counts.shape}, but there are {len(self.labels)} labels; give a square"
            )
        shares = self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)  # of labels that do not occur: 0
        right = f"{int(self.counts.trace()):,} of {int(self.counts.sum()):,} right"
        title = title or f"Confusion: {right}; true labels down, predictions across"
        super().__init__(self.labels, self.labels, shares, title, across="prediction", down="true label")

    @property
    def shares(self) -> np.ndarray:
        """Counts by the sum of their row."""
        return self.weights


class HeatMaps(Picture):
    """Tables one below the other: tags over words, transitions between tags, guesses for gaps."""

    def __init__(self, panels: Sequence[ShadeTable]) -> None:
        """
        Raises:
            UserError: there is no panel.
        """
        if not panels:
            raise UserError("there is nothing to draw; give at least one table")
        self.panels = list(panels)
        self.title, self.caption = self.panels[0].heading, self.panels[0].caption

    def figures(self) -> list[Figure]:
        return [figure for panel in self.panels for figure in panel.figures()]

    def terminal_figures(self) -> list[Figure]:
        return [figure for panel in self.panels for figure in panel.terminal_figures()]


class HopMap(ShadeTable):
    """Where each hop of a model that answers questions looked: facts down, hops across, the facts it needs marked.

    As in figure 3 of Sukhbaatar et al. (2015), "End-To-End Memory Networks".

    >>> picture = HopMap(["Mary slept.", "Bill ran."], [[0.9, 0.1], [0.2, 0.8]], "Who ran?", "Bill", needed=(1,))
    >>> print(picture.to_terminal(width=60, color=False))
    Who ran? → Bill
                   hop 1 hop 2
      Mary slept.  █ .90 ░ .20
    ● Bill ran.    ░ .10 █ .80
    ● needed for the answer
    Each column: what a hop takes from the facts, 1 at most.
    """

    caption = "Each column: what a hop takes from the facts, 1 at most."

    def __init__(
        self,
        facts: Sequence[str],
        hops: npt.ArrayLike,
        question: str,
        answer: str,
        needed: Sequence[int] | None = None,
    ) -> None:
        """
        Args:
            hops: (hops, facts), each weight from 0 to 1.
            needed: the facts that the answer needs, counted from 0, where that is known.

        Raises:
            UserError: weights that do not fit the facts, or are none.
        """
        count = np.asarray(hops).shape[0] if np.asarray(hops).ndim else 0
        self.hops = checked_weights(hops, (count, len(facts)), "hops x facts")
        names = [f"hop {number}" for number in range(1, count + 1)]
        super().__init__(names, facts, self.hops.T, f"{question} → {answer}", across="hop", down="fact")
        self.facts, self.question, self.answer = self.rows, question, answer
        self.needed = None if needed is None else frozenset(needed)

    def panel(self, title: str = "") -> Heat:
        """The table as a panel of a figure, the facts that are needed marked."""
        panel = super().panel(title)
        if self.needed is None:
            return panel
        return replace(panel, marked=sorted(self.needed), mark_label="needed for the answer")
