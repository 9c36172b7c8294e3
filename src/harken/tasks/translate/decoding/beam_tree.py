"""The search of one sentence as a picture: the tree of its beam, the terms of each score, why the best one won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.inspection.figure.tree import Branch
from harken.inspection.pictures.beam import BeamPicture
from harken.search.config import SearchConfig
from harken.search.conflicts import OF_TREES, conflict_of
from harken.search.hypotheses import Hypothesis
from harken.search.ranking import ranking_of
from harken.search.tree import BeamRecorder, Terms, TreeNode, beam_tree, terms_of
from harken.tasks.translate.decoding.searching import Request, search

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

JOINER = "￭"  # how word tokenizers mark a token that has no space before or after it
RANKS = {"best": 2, "finished": 1, "live": 0, "dropped": 0, "cut off": 1}


@dataclass(frozen=True)
class BeamRecord:
    """One search: every prefix that was in the beam, and the hypotheses with the terms of their scores."""

    source: str
    config: SearchConfig
    nodes: list[TreeNode]
    labels: list[str]  # of the nodes
    hypotheses: list[Hypothesis]
    texts: list[str]  # of the hypotheses
    terms: list[Terms]
    reason: str


def record_beam(translator: Translator, sentence: str, request: Request) -> BeamRecord:
    """Translate a sentence and record its beam.

    Raises:
        UserError: no words, or a search without a beam.
    """
    if reason := conflict_of(request.config, OF_TREES):
        raise UserError(reason)
    sources = translator.read([sentence])
    if not sources.ids[0]:
        raise UserError("the sentence has no words; give some")
    if request.config.beam == 1:
        request = replace(request, config=request.config.changed({"diversity_groups": 1}))
    recorder = BeamRecorder()
    request = replace(request, observe=recorder)
    hypotheses = search(request, sources, [0], request.config.beam, keep_beam=True)[0]
    nodes = beam_tree(recorder, hypotheses)
    pieces = translator.target.pieces([node.token for node in nodes])
    labels = [
        "</s>" if node.token == EOS else piece.replace(JOINER, "") or piece
        for node, piece in zip(nodes, pieces, strict=True)
    ]
    ranking = ranking_of(request.config)
    terms = [terms_of(hypothesis, ranking) for hypothesis in hypotheses]
    texts = [sources.forms[0].fill(translator.target.decode(hypothesis.tokens)) for hypothesis in hypotheses]
    reason = why(texts, terms, hypotheses)
    return BeamRecord(sources.texts[0], request.config, nodes, labels, hypotheses, texts, terms, reason)


def draw_beam(translator: Translator, sentence: str, request: Request) -> BeamPicture:
    """Translate a sentence and draw its beam.

    Raises:
        UserError: no words, or a search without a beam.
    """
    record = record_beam(translator, sentence, request)
    ranks = [RANKS[node.outcome] for node in record.nodes]
    for index in reversed(range(len(ranks))):  # a path to a finished hypothesis counts as much as its end
        parent = record.nodes[index].parent
        if parent >= 0:
            ranks[parent] = max(ranks[parent], ranks[index])
    branches = [
        Branch(node.parent, label, node.total, rank, node.outcome if node.outcome != "live" else "")
        for node, label, rank in zip(record.nodes, record.labels, ranks, strict=True)
    ]
    table = [(text, _shown(terms)) for text, terms in zip(record.texts, record.terms, strict=True)]
    return BeamPicture(sentence, branches, table, record.reason)


def why(texts: Sequence[str], terms: Sequence[Terms], hypotheses: Sequence[Hypothesis]) -> str:
    """One or two sentences on what decided between the best hypothesis and the others."""
    if len(texts) == 1:
        return "It is the only hypothesis that the search kept."
    best, second = terms[0], terms[1]
    words = f"“{texts[0]}” ranks {best.rank:.3f}, {best.rank - second.rank:.3f} above “{texts[1]}”."
    if not hypotheses[0].finished:
        return f"{words} None had ended when the maximum length was reached."
    by_probability = max(range(len(terms)), key=lambda index: terms[index].log_probability)
    if by_probability == 0:
        return f"{words} It is also the most probable: its log-probability is {best.log_probability:.3f}."
    other = terms[by_probability]
    reasons = []
    if best.divisor != other.divisor:
        reasons.append(f"dividing by {best.divisor:.3g} instead of {other.divisor:.3g} for their lengths")
    if best.rules != other.rules:
        reasons.append(f"score rules, which add {best.rules:.3f} instead of {other.rules:.3f}")
    if best.reward != other.reward:
        reasons.append(f"the word reward, {best.reward:.3f} instead of {other.reward:.3f}")
    if best.coverage != other.coverage:
        reasons.append(f"the coverage of the source, {best.coverage:.3f} instead of {other.coverage:.3f}")
    return (
        f"{words} “{texts[by_probability]}” is more probable ({other.log_probability:.3f} against "
        f"{best.log_probability:.3f}); what decides is {' and '.join(reasons) or 'rounding'}."
    )


def _shown(terms: Terms) -> dict[str, float]:
    shown = {"log P": terms.log_probability, "rules": terms.rules, "divided by": terms.divisor}
    shown |= {"reward": terms.reward, "coverage": terms.coverage, "rank": terms.rank}
    return shown
