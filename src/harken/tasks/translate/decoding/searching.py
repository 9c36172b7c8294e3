"""From words to a search: the options of a translation, its rules for each sentence, and the models that take part.

    Request     one call of `translate`: options, prefixes, phrases, further models
    search      sentences of a request -> hypotheses, through `harken.search.dispatch`

Minimum Bayes risk (`search.mbr`) draws or searches candidates and chooses the one that is most like the others:

    y* = argmax_y mean over y' of utility(y, y')              Eikema and Aziz (2020)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.data.text.placeholders import misplaced
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.marks import forced_tokens, inner_tokenizer
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.metrics.bleu import chrf_of_statistics, chrf_statistics, sentence_bleu
from harken.recipe import model_recipe
from harken.search.config import TranslationSearchConfig
from harken.search.conflicts import SAMPLING
from harken.search.dispatch import DecodingCall, decode
from harken.search.ensemble import Ensemble
from harken.search.hypotheses import Hypothesis
from harken.search.rules.constraints import Constraints
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Banned, Shortlist
from harken.search.rules.prefix import ForcedFirst, Prefix, check_prefix
from harken.search.stored import StoredModel, network_of
from harken.tasks.registry import job_of
from harken.tasks.translate.decoding.describing import describe
from harken.tasks.translate.decoding.glossary import (
    Match,
    Term,
    find_terms,
    forms,
    joining_tokens,
    phrase_ids,
    read_glossary,
)
from harken.tasks.translate.decoding.substitution import substitute
from harken.tasks.translate.known_form import KnownForm
from harken.tasks.translate.sources import Sources, max_lengths
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


@dataclass
class Request:
    """The options of one call of `translate`, checked.

    Args:
        translator: the model, and the tokenizers of all models.
        config: how to search.
        prefix: the beginning of every translation, or one for each text; "" for none.
        prefix_bias: None forces the prefix; a number from 0 to 1 prefers it.
        require: phrases that every translation must contain, or a list of them for each text.
        ensemble: further translators with the same vocabularies.
        weights: of all models of the ensemble, this one first.
        terms: pairs of source and target terms for each text, beside those of the glossary.
    """

    translator: Translator
    config: TranslationSearchConfig
    prefix: str | Sequence[str] = ""
    prefix_bias: float | None = None
    require: Sequence[str] | Sequence[Sequence[str]] = ()
    ensemble: Sequence[Translator] = ()
    weights: Sequence[float] | None = None
    cancelled: Callable[[], bool] | None = None
    observe: Callable[[Any], None] | None = None
    terms: Sequence[Sequence[tuple[str, str]]] = ()
    is_session: bool = False  # no weight changes between its batches (`DecodingCall.session`)
    glossary: list[Term] = field(default_factory=list, init=False)
    model: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        config, target = self.config, inner_tokenizer(self.translator.target)
        if config.glossary:
            self.glossary = read_glossary(config.glossary)
        self.model = self.translator.model
        if self.ensemble:
            for other in self.ensemble:
                check_same_vocabulary(self.translator, other)
            models = [network_of(each.model) for each in (self.translator, *self.ensemble)]
            self.model = Ensemble(models, self.weights)
        self.banned = [ids for word in config.banned for form in forms(word) if (ids := target.encode(form))]
        self.language = _language_model(self.translator, config) if config.lm_weight else None
        self.second = _load("search.rerank", config.rerank, "translate", self.translator) if config.rerank else None

    @cached_property
    def joins(self) -> np.ndarray | None:
        """(V,) the target's tokens that continue a word."""
        return joining_tokens(self.translator.target)

    def rules(self, sources: Sources, numbers: Sequence[int], limits: Sequence[int]) -> tuple[Any, ...]:
        """The rules that hold data of these sentences: their places in the call, and the most tokens of each."""
        target, rules = self.translator.target, list[Any]()
        allowed = self._allowed([sources.forms[number].ids for number in numbers])
        if self.banned:
            rules.append(Banned(self.banned))
        if first := forced_tokens(target):
            _allow(allowed, [first] * len(numbers))
            rules.append(ForcedFirst(first[0]))
        prefixes = [self.prefix_of(number) for number in numbers]
        if any(prefixes):
            texts = [sources.texts[number] for number in numbers]
            rows = target.encode_all(self.translator.placeholders.mask_columns((texts, prefixes), as_read=True)[1])
            for row, limit in zip(rows, limits, strict=True):
                check_prefix(row, limit)
            _allow(allowed, rows)
            rules.append(Prefix(rows, self.prefix_bias))
        phrases = [self._required(number) for number in numbers]
        if any(phrases):
            ids = [[phrase_ids(alternatives, target) for alternatives in row] for row in phrases]
            _allow(allowed, [[token for forms in row for form in forms for token in form] for row in ids])
            rules.append(Constraints(ids, self.joins))
        if self.language is not None:
            network = self.language
            with torch.no_grad():
                state = network.start(len(numbers))
            rules.append(LanguageModelFusion(network, state, self.config.lm_weight))
        if allowed is not None:
            rules.append(Shortlist(allowed))
        return tuple(rules)

    def prefix_of(self, number: int) -> str:
        """The beginning of the translation of a text."""
        return self.prefix if isinstance(self.prefix, str) else self.prefix[number]

    def matches(self, sources: Sources, number: int) -> list[Match]:
        """The terms in a text that have a given translation."""
        own = [Term(*pair) for pair in self.terms[number]] if self.terms else []
        form = sources.forms[number]
        return find_terms(form.text if form.spans else sources.texts[number], [*own, *self.glossary])

    def _allowed(self, rows: Sequence[Sequence[int]]) -> np.ndarray | None:
        """(B, V) the tokens that these sources may write; None: all."""
        count, translator = self.config.shortlist, self.translator
        is_shared = inner_tokenizer(translator.source) is inner_tokenizer(translator.target)
        return translator.shortlist.allowed(rows, count, is_shared) if count else None

    def _required(self, number: int) -> list[list[str]]:
        phrases = self.require
        if phrases and not isinstance(phrases[0], str):
            phrases = phrases[number]
        return [forms(phrase) for phrase in phrases if isinstance(phrase, str) and phrase.strip()]


def search(
    request: Request,
    sources: Sources,
    numbers: Sequence[int],
    count: int,
    keep_beam: bool = False,
    row_numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The `count` best hypotheses of the sentences of these numbers.

    Args:
        keep_beam: also search greedily by a beam, and give its hypotheses as they are, without terms of a glossary.
        row_numbers: what the random numbers of each sentence depend on. Default: `numbers`.
    """
    translator, config = request.translator, request.config
    matches = [] if keep_beam else _checked_matches(request, sources, numbers)
    is_stored = isinstance(request.model, StoredModel)
    batch = sources.arrays(numbers) if is_stored else sources.batch(numbers, translator.device)
    row_numbers = list(numbers if row_numbers is None else row_numbers)
    limits = max_lengths(translator.recipe.model_copy(update={"search": config}), batch.lengths)
    candidates, marked = count, not keep_beam and any(sources.forms[number].spans for number in numbers)
    if config.mbr:
        candidates = max(count, config.mbr_candidates)
        config = config if config.sample else config.changed({"beam": max(config.beam, candidates)})
    elif request.second is not None or (marked and not config.sample):
        candidates = max(count, config.beam)
    call = DecodingCall(
        request.model,
        batch.ids,
        batch.lengths,
        limits,
        config,
        candidates,
        batch.distances,
        request.rules(sources, numbers, limits.tolist()),
        np.array(row_numbers) if is_stored else torch.tensor(row_numbers),  # type: ignore[arg-type]
        request.cancelled,
        None if any(matches) or (marked and candidates > count) else request.observe,  # what is chosen or replaced last
        keep_beam,
        request if request.is_session else None,
    )
    hypotheses = decode(call)
    if marked and candidates > count:
        hypotheses = [
            _intact_first(translator, sources.forms[number], row)
            for number, row in zip(numbers, hypotheses, strict=True)
        ]
        if request.second is None and not config.mbr:
            hypotheses = [row[:count] for row in hypotheses]
    if any(matches):
        hypotheses = _with_terms(request, sources, numbers, matches, hypotheses)
    if request.second is not None:
        texts = [sources.texts[number] for number in numbers]
        forms = [sources.forms[number] for number in numbers]
        hypotheses = [_reranked(request, *each)[:count] for each in zip(texts, forms, hypotheses, strict=True)]
    if config.mbr:
        decoder = translator.target.decode
        texts_of = ([decoder(hypothesis.tokens) for hypothesis in row] for row in hypotheses)
        hypotheses = [_by_risk(row, texts, config.mbr)[:count] for row, texts in zip(hypotheses, texts_of, strict=True)]
    return hypotheses


def _intact_first(translator: Translator, form: KnownForm, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Hypotheses that have the symbols of their source before those that lost or repeat some."""
    if not form.spans:
        return hypotheses
    return sorted(hypotheses, key=lambda hypothesis: misplaced(translator.target.decode(hypothesis.tokens), form.text))


def _checked_matches(request: Request, sources: Sources, numbers: Sequence[int]) -> list[list[Match]]:
    """The glossary's terms in each of these sentences.

    Raises:
        UserError: the vocabulary cannot write one of them.
    """
    matches = [request.matches(sources, number) for number in numbers]
    for match in (match for row in matches for match in row):
        phrase_ids(match.forms, request.translator.target)
    return matches


def _with_terms(
    request: Request,
    sources: Sources,
    numbers: Sequence[int],
    matches: Sequence[Sequence[Match]],
    hypotheses: list[list[Hypothesis]],
) -> list[list[Hypothesis]]:
    """Hypotheses with the glossary's terms, each once; a prefix that was given stays as it is."""
    rows = [
        (number, hypothesis, terms)
        for number, terms, row in zip(numbers, matches, hypotheses, strict=True)
        for hypothesis in row
        if terms
    ]
    decoder, results = request.translator.target.decode, []
    edited = iter(substitute(request.translator, request.config, sources, rows))
    for number, terms, row in zip(numbers, matches, hypotheses, strict=True):
        prefix, distinct = request.prefix_of(number), dict[tuple[int, ...], Hypothesis]()
        for before in row:
            after = next(edited) if terms else before
            text = sources.forms[number].fill(decoder(after.tokens))
            hypothesis = after if text.startswith(prefix) else before
            distinct.setdefault(tuple(hypothesis.tokens), hypothesis)
        results.append(list(distinct.values()) if terms else row)
    return results


def translate_batch(
    request: Request,
    sources: Sources,
    numbers: Sequence[int],
    count: int,
    attention: bool = False,
    layers: bool = False,
    row_numbers: Sequence[int] | None = None,
) -> list[list[tuple[Translation, int]]]:
    """The `count` best translations of the sentences of these numbers, each with its number of tokens, EOS included.

    Args:
        attention, layers: also say what each word attends to, in every layer.
        row_numbers: see `search`.
    """
    best = search(request, sources, numbers, count, row_numbers=row_numbers)
    rows = [(number, hypothesis) for number, row in zip(numbers, best, strict=True) for hypothesis in row]
    described = iter(describe(request.translator, sources, rows, attention, layers))
    return [[(next(described), len(hypothesis.tokens) + 1) for hypothesis in row] for row in best]


def _allow(allowed: np.ndarray | None, rows: Sequence[Sequence[int]]) -> None:
    """Add tokens that a translation must have to the shortlist of each source."""
    for row, tokens in enumerate(rows if allowed is not None else ()):
        allowed[row, list(tokens)] = True  # type: ignore[index]


def _by_risk(hypotheses: list[Hypothesis], texts: Sequence[str], metric: str) -> list[Hypothesis]:
    """Hypotheses by their mean utility, each different text once; `normalised` becomes the utility, from 0 to 1."""
    utility = utilities(texts, metric)
    order = sorted(range(len(hypotheses)), key=lambda index: -utility[index])
    distinct = [index for rank, index in enumerate(order) if texts[index] not in [texts[i] for i in order[:rank]]]
    return [replace(hypotheses[index], normalised=float(utility[index])) for index in distinct]


def utilities(texts: Sequence[str], metric: str) -> np.ndarray:
    """(N,) the mean likeness of each text to all texts, from 0 to 1.

    >>> [round(float(value), 2) for value in utilities(["a b c d", "a b c d", "x y z"], "chrf")]
    [0.67, 0.67, 0.33]
    """
    table = np.zeros((len(texts), len(texts)))
    unique = {text: [i for i, other in enumerate(texts) if other == text] for text in dict.fromkeys(texts)}
    for text, rows in unique.items():
        others = list(unique)
        if metric == "chrf":
            scores = chrf_of_statistics(chrf_statistics([text] * len(others), [[other] for other in others]))
        else:
            scores = np.array([sentence_bleu(text, [other]) for other in others])
        for other, score in zip(others, scores, strict=True):
            table[np.ix_(rows, unique[other])] = 100.0 if other == text else score
    return table.mean(1) / 100


def _have_same_pieces(first: Tokenizer, other: Tokenizer) -> bool:
    return first.size == other.size and first.pieces(range(first.size)) == other.pieces(range(other.size))


def check_same_vocabulary(first: Translator, other: Translator) -> None:
    """Refuse translators that cannot work together.

    Raises:
        UserError: their vocabularies differ.
    """
    for side in ("source", "target"):
        if not _have_same_pieces(getattr(first, side), getattr(other, side)):
            raise UserError(
                f"{other.folder} has another {side} vocabulary than {first.folder}; models of an ensemble are trained "
                "with the same tokenizer files"
            )


def alternatives(request: Request, sources: Sources, prefix: Sequence[int], count: int) -> list[Hypothesis]:
    """The best translation of the first sentence after the prefix and each of the `count` best next tokens."""
    beam = {"beam": max(count, 1), "sample": False, "mbr": None, "diversity_groups": 1}
    first = replace(request, config=request.config.changed({**beam, **SAMPLING, "stopping": "exact", "patience": 1.0}))
    batch = sources.batch([0], request.translator.device)
    prefix = prefix or forced_tokens(request.translator.target)
    rules = (Prefix([prefix]),)
    call = DecodingCall(
        network_of(first.model), batch.ids, batch.lengths, len(prefix) + 1, first.config, count, batch.distances, rules
    )
    starts = [[*hypothesis.tokens] for hypothesis in decode(call)[0] if not hypothesis.finished]
    continued = []
    limit = max_lengths(request.translator.recipe.model_copy(update={"search": request.config}), batch.lengths)
    for start in starts:
        others = [rule for rule in request.rules(sources, [0], limit.tolist()) if not isinstance(rule, Shortlist)]
        longest = limit.clamp(min=len(start) + 1)
        whole = replace(call, options=request.config, nbest=1, max_lengths=longest, rules=(*others, Prefix([start])))
        continued.append(decode(whole)[0][0])
    numbers = [0] * len(continued)
    matches = _checked_matches(request, sources, numbers)
    return [row[0] for row in _with_terms(request, sources, numbers, matches, [[best] for best in continued])]


def _reranked(request: Request, text: str, form: KnownForm, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses by (1 - w) rank + w rank of the second model."""
    assert request.second is not None
    weight, decoder = request.config.rerank_weight, request.translator.target.decode
    outputs = [form.fill(decoder(hypothesis.tokens)) for hypothesis in hypotheses]
    if request.config.rerank_reversed:
        outputs = [" ".join(reversed(output.split())) for output in outputs]
    scored = [index for index, output in enumerate(outputs) if output.strip()]
    second = dict(zip(scored, request.second.score([text] * len(scored), [outputs[i] for i in scored]), strict=True))
    both = [
        replace(hypothesis, normalised=(1 - weight) * hypothesis.normalised + weight * second[index].score)
        if index in second
        else replace(hypothesis, normalised=-math.inf)
        for index, hypothesis in enumerate(hypotheses)
    ]
    return sorted(both, key=lambda hypothesis: -hypothesis.normalised)


def _load(key: str, path: str | None, task: str, translator: Translator) -> Any:
    """The model that an option names.

    Raises:
        UserError: no model folder, or a model of another task.
    """
    folder = Path(str(path))
    if not (folder / "recipe.toml").is_file():
        raise UserError(f"{key} is {folder}, which is no model folder; train one with harken train")
    recipe = model_recipe(folder)
    if recipe.task != task:
        raise UserError(f"{key} is {folder}, a model of the task {recipe.task!r}; give one of the task {task!r}")
    return job_of(recipe.task).load(folder, recipe, str(translator.device))


def _language_model(translator: Translator, config: TranslationSearchConfig) -> Any:
    loaded, target = _load("search.language_model", config.language_model, "language", translator), translator.target
    if not _have_same_pieces(loaded.tokenizer, target):
        raise UserError(
            f"{config.language_model} has another vocabulary than the translator's target; train it with the same "
            "tokenizer"
        )
    return loaded.model
