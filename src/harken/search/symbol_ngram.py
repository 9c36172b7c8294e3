"""How likely a symbol is after the ones before it: an n-gram with Witten-Bell smoothing, for search to lean on.

p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h))      h' = h without its first symbol, t(h) = symbols seen after h

below the shortest history all V symbols and the end are alike. A text's beginning is a history too, and its end (0) a
symbol. Reference: Witten and Bell (1991).

>>> from math import exp
>>> model = SymbolNgram.learn([[1, 2], [1, 2], [1, 3]], size=3, order=2)
>>> round(sum(exp(model.log_chance(symbol, (1,))) for symbol in (1, 2, 3)) + exp(model.log_end((1,))), 6)
1.0
>>> model.log_chance(2, (1,)) > model.log_chance(3, (1,)) > model.log_chance(1, (1,))
True
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence

END = 0  # where CTC has its blank, which is no symbol of a text
BEGIN = -1
History = tuple[int, ...]


class SymbolNgram:
    """Counts of symbols after histories of 0 to order - 1 symbols."""

    def __init__(self, counts: dict[History, Counter[int]], size: int, order: int) -> None:
        self.counts, self.size, self.order = counts, size, order
        self.known: dict[tuple[int, History], float] = {}

    @classmethod
    def learn(cls, texts: Iterable[Sequence[int]], size: int, order: int) -> SymbolNgram:
        """Count texts over symbols 1 to `size`."""
        counts: dict[History, Counter[int]] = {}
        for text in texts:
            padded = [BEGIN] * (order - 1) + list(text) + [END]
            for place in range(order - 1, len(padded)):
                for length in range(order):
                    history = tuple(padded[place - length : place])
                    counts.setdefault(history, Counter())[padded[place]] += 1
        return cls(counts, size, order)

    def log_chance(self, symbol: int, before: History) -> float:
        """log p(symbol | before)."""
        padded = (BEGIN,) * (self.order - 1) + tuple(before)
        return self._log(symbol, padded[len(padded) - self.order + 1 :])

    def log_end(self, before: History) -> float:
        """log p(the text ends | before)."""
        return self.log_chance(END, before)

    def _log(self, symbol: int, history: History) -> float:
        key = symbol, history
        if key not in self.known:
            self.known[key] = math.log(self._chance(symbol, history))
        return self.known[key]

    def _chance(self, symbol: int, history: History) -> float:
        shorter = self._chance(symbol, history[1:]) if history else 1 / (self.size + 1)
        seen = self.counts.get(history)
        if seen is None:
            return shorter
        kinds = len(seen)
        return (seen[symbol] + kinds * shorter) / (seen.total() + kinds)

    def to_json(self) -> str:
        """For a file beside the model."""
        rows = [[list(history), sorted(seen.items())] for history, seen in sorted(self.counts.items())]
        return json.dumps({"size": self.size, "order": self.order, "counts": rows}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SymbolNgram:
        """What `to_json` wrote."""
        stored = json.loads(text)
        counts = {tuple(history): Counter(dict(map(tuple, seen))) for history, seen in stored["counts"]}
        return cls(counts, stored["size"], stored["order"])
