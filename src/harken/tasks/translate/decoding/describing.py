"""Translations made from the results of a search: their words, and which source words each of them attends to.

Attention is not kept while searching. The finished translation is read once more under teacher forcing, and the weights
of pieces are merged into those of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.data.io.token_rows import pad
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import BOS
from harken.data.tokenizers.words import words_of
from harken.lazy_torch import no_grad, torch
from harken.metrics.alignment import merge_subwords
from harken.search import Hypothesis
from harken.tasks.translate.decoding.scoring import forced_scores
from harken.tasks.translate.known_form import KnownForm
from harken.tasks.translate.sources import Sources
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from harken.nn.attention.multihead import SelfAttention
    from harken.tasks.translate.translator import Translator


def describe(
    translator: Translator,
    sources: Sources,
    rows: Sequence[tuple[int, Hypothesis]],
    attention: bool,
    layers: bool,
    texts_out: Sequence[str] | None = None,
) -> list[Translation]:
    """Hypotheses as translations; their attention by reading them once under teacher forcing.

    Args:
        texts_out: the texts of the hypotheses, with symbols for markup, where they were given.
    """
    outputs = texts_out or [translator.target.decode(hypothesis.tokens) for _, hypothesis in rows]
    results = [
        Translation(
            sources.texts[number],
            sources.forms[number].fill(text) if texts_out else sources.forms[number].restore(text),
            hypothesis.normalised,
            unknown=sources.forms[number].unknown,
            token_ids=hypothesis.tokens,
            token_scores=hypothesis.token_scores,
            source_words=[form.fill(word) for word in form.text.split()]
            if (form := sources.forms[number]).spans
            else [],
        )
        for (number, hypothesis), text in zip(rows, outputs, strict=True)
    ]
    if (attention or layers) and rows:
        _attend(translator, sources, rows, results, outputs, layers)
    return results


@no_grad
def _attend(
    translator: Translator,
    sources: Sources,
    rows: Sequence[tuple[int, Hypothesis]],
    results: Sequence[Translation],
    outputs: Sequence[str],
    layers: bool,
) -> None:
    """Give translations of the texts `outputs` their attention, where the model has any."""
    source, lengths, distances = sources.batch([number for number, _ in rows], translator.device)
    target, _ = pad([[BOS, *hypothesis.tokens] for _, hypothesis in rows], eos=False)
    with recording_self_attention(translator.model, layers) as recorded:
        weights = translator.model.attention(source, lengths, target.to(translator.device), distances)
    if weights is None:  # else (B, L, N, T, S)
        return
    aligned = translator.model.alignment(weights).float().cpu().numpy()  # (B, T, S)
    first = 1 if translator.model.alignment_shift else 0
    for row, ((number, hypothesis), result) in enumerate(zip(rows, results, strict=True)):
        pieces, form = hypothesis.tokens, sources.forms[number]
        words = form.ids
        rectangle = aligned[row, first : first + len(pieces), : len(words)]
        result.target_words, target_owners = _words(translator.target, pieces, outputs[row], form, result.text)
        result.source_words, source_owners = _words(translator.source, words, form.text, form, result.source)
        if not result.target_words:  # tokens without text, such as that of a language
            rectangle, target_owners = rectangle[:0], []
        sizes = len(result.target_words), len(result.source_words)
        result.attention = merge_subwords(rectangle, target_owners, source_owners, *sizes)
        if form.unknown and len(result.source_words) != len(form.text.split()):  # a script without spaces
            fallback = translator.source.fallback_ids
            result.unknown = sorted(
                {owner for owner, token in zip(source_owners, words, strict=True) if token in fallback}
            )
        if layers:
            result.layers = weights[row, :, :, : len(pieces) + 1, : len(words) + 1].float().cpu().numpy()
            result.encoder_layers = _stacked(recorded, "encoder", row, len(words) + 1)
            result.decoder_layers = _stacked(recorded, "decoder", row, len(pieces) + 1)
            result.source_pieces, result.target_pieces = (
                translator.source.pieces(words),
                translator.target.pieces(pieces),
            )


def _words(
    tokenizer: Tokenizer, ids: Sequence[int], text: str, form: KnownForm, shown: str
) -> tuple[list[str], list[int]]:
    """The words of a text as they are shown, and the word of every id; a span of markup is in one word."""
    if not form.spans:
        return words_of(tokenizer, ids, text, shown)
    words, owners = words_of(tokenizer, ids, text, form.end(text))
    return [form.fill(word) for word in words], owners


@contextmanager
def recording_self_attention(model: nn.Module, enabled: bool = True) -> Iterator[dict[str, Tensor]]:
    """Inside, every `SelfAttention` that runs leaves its weights (B, N, T, T) under its name."""
    from harken.nn.attention.multihead import SelfAttention  # imports torch

    recorded: dict[str, Tensor] = {}

    def record(name: str) -> Callable[..., None]:
        def hook(module: SelfAttention, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
            given = {**dict(zip(("values", "mask", "causal", "distances"), inputs, strict=False)), **options}
            recorded[name] = module.with_weights(**{"mask": None, "causal": False, **given})[1]

        return hook

    named = model.named_modules() if enabled else ()
    modules = [(name, module) for name, module in named if isinstance(module, SelfAttention)]
    hooks = [module.register_forward_hook(record(name), with_kwargs=True) for name, module in modules]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()


def _stacked(recorded: Mapping[str, Tensor], side: str, row: int, size: int) -> np.ndarray | None:
    """(L, N, size, size) of the layers of one side; None where it has no self-attention."""
    layers = [weights[row, :, :size, :size] for name, weights in recorded.items() if name.startswith(side)]
    return torch.stack(layers).float().cpu().numpy() if layers else None


def forced(translator: Translator, sources: Sources, targets: list[list[int]]) -> list[Hypothesis]:
    """Given outputs with the score the model has for them."""
    scores = map(math.fsum, forced_scores(translator, sources, range(len(targets)), targets))
    return [Hypothesis(row, score, score / (len(row) + 1), True) for row, score in zip(targets, scores, strict=True)]
