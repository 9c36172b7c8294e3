"""The search of one sentence as a picture: the tree of its beam, the terms of each score, why the best one won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.inspection.figure.tree import Branch
from harken.inspection.pictures.beam import BeamPicture
from harken.search.hypotheses import Hypothesis
from harken.search.reference import ranking_of
from harken.search.tree import BeamRecorder, Terms, beam_tree, terms_of
from harken.tasks.translate.searching import Request, search

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

JOINER = "￭"  # how word tokenizers mark a token that has no space before or after it
RANKS = {"best": 2, "finished": 1, "live": 0, "dropped": 0, "cut off": 1}


def draw_beam(translator: Translator, sentence: str, request: Request) -> BeamPicture:
    """Translate a sentence and draw its beam.

    Raises:
        UserError: no words, or a search without a beam.
    """
    if request.config.sample or request.config.mbr:
        raise UserError("a beam is drawn of beam search; leave sampling and minimum Bayes risk out")
    sources = translator.read([sentence])
    if not sources.ids[0]:
        raise UserError("the sentence has no words; give some in quotes")
    if request.config.beam == 1:
        request = replace(request, config=request.config.changed({"diversity_groups": 1}))
    recorder = BeamRecorder()
    request = replace(request, observe=recorder)
    found = search(request, sources, [0], request.config.beam, keep_beam=True)[0]
    nodes = beam_tree(recorder, found)
    pieces = translator.target.pieces([node.token for node in nodes])
    ranks = [RANKS[node.outcome] for node in nodes]
    for index in reversed(range(len(nodes))):  # a way to a finished hypothesis counts as much as its end
        if nodes[index].parent >= 0:
            ranks[nodes[index].parent] = max(ranks[nodes[index].parent], ranks[index])
    branches = []
    for node, piece, rank in zip(nodes, pieces, ranks, strict=True):
        note = node.outcome if node.outcome != "live" else ""
        label = "</s>" if node.token == EOS else piece.replace(JOINER, "") or piece
        branches.append(Branch(node.parent, label, node.total, rank, note))
    ranking = ranking_of(request.config)
    terms = [terms_of(one, ranking) for one in found]
    texts = [translator.target.decode(one.tokens) for one in found]
    table = [(text, _shown(one)) for text, one in zip(texts, terms, strict=True)]
    return BeamPicture(sentence, branches, table, why(texts, terms, found))


def why(texts: Sequence[str], terms: Sequence[Terms], found: Sequence[Hypothesis]) -> str:
    """One or two sentences on what decided between the best hypothesis and the others."""
    if len(texts) == 1:
        return "It is the only hypothesis that the search kept."
    best, second = terms[0], terms[1]
    words = f"“{texts[0]}” ranks {best.rank:.3f}, {best.rank - second.rank:.3f} above “{texts[1]}”."
    if not found[0].finished:
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
