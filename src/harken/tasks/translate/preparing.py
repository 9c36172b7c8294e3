"""From a recipe for translation and its corpus to a run: tokenizers, the network, and the facts of the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from harken.data.rows import Rows, rows_of
from harken.data.text.config import DataConfig
from harken.data.text.pairs import Corpus, Pair, pair_key
from harken.data.text.parallel import read_corpus
from harken.data.text.placeholders import SAMPLE as MARKUP_SAMPLE
from harken.data.text.placeholders import SYMBOLS, Placeholders, copied_kinds
from harken.data.tokenizers.base import Tokenizer, train_tokenizers
from harken.data.tokenizers.marks import add_marks, inner_tokenizer
from harken.errors import UserError
from harken.models.build import build_model
from harken.models.encoder_decoder import TranslationModel
from harken.models.sizing import measure
from harken.tasks.job import Prepared, Summary, format_skipped
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.translate.decoding.shortlist import SHORTLIST, learn_from
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.seen_words import MOST_TEXTS, SEEN_WORDS, SeenWords
from harken.tasks.translate.task import TranslationTask
from harken.tasks.translate.translator import TOKENIZERS
from harken.training.adapter import Adapter
from harken.training.config import Decision
from harken.training.folder import MODEL
from harken.training.weights import DIGEST, lineage, load_weights, stored_metadata

SIZES = ("layers", "encoder_layers", "decoder_layers", "width", "embedding", "feedforward", "heads")


def prepare_run(recipe: TranslateRecipe, corpus: Corpus, folder: Path, resuming: bool) -> Prepared:
    """A run of a recipe on a corpus: tokenizers, network and task."""
    pairs = rows_of(corpus.train)
    texts = pairs.column(0), pairs.column(1)
    recipe, decisions = decide_markup(recipe, pairs, resuming)
    is_sampled = 2 * len(pairs) > recipe.tokenizer.max_lines  # else all seeds have the same tokenizers
    settings = [recipe.tokenizer.model_dump(), recipe.train.seed if is_sampled else 0, *recipe.data.markup]
    start = None if recipe.adapt.start is None else Path(recipe.adapt.start)

    def learn() -> tuple[Tokenizer, Tokenizer]:
        if start is not None:
            return TOKENIZERS.load(start)
        return pairs.cached_tokenizers(settings, lambda: learn_tokenizers(recipe, pairs))

    source, target = TOKENIZERS.learn_or_load(folder, resuming, learn)
    known = None if start is None else SEEN_WORDS.load(start)
    if recipe.tokenizer.kind in ("bpe", "unigram") and len(pairs) <= MOST_TEXTS and known != SeenWords():
        SEEN_WORDS.learn_or_load(folder, resuming, lambda: SeenWords.of_pairs(pairs, known))
    source, target = add_marks(recipe, source, target)
    model = build_model(recipe.model, source.size, target.size)
    if resuming:
        lineage(folder / MODEL)  # the base of an adapter is still the same
    adapter = None if start is None else open_start(recipe, model, start)
    if recipe.adapt.int8:
        model.round_to_int8()
    general = general_corpus(recipe, corpus)
    task = TranslationTask(recipe, corpus, model, source, target, general, adapter)
    if recipe.search.shortlist:
        SHORTLIST.learn_or_load(folder, resuming, lambda: learn_from(task.train, (source.size, target.size)))
    pretrained = PretrainedEmbeddings(recipe, folder, resuming)
    fill_embeddings(pretrained, recipe, texts, model, source, target)

    def prepared(recipe: TranslateRecipe, task: TranslationTask) -> Prepared:
        summary = summarise(recipe, corpus, source, target, pretrained, general, adapter)
        return replace(summary.prepared(task, measure(task.model).flops, corpus), decisions=decisions)

    def resize(smaller: TranslateRecipe) -> Prepared:
        return prepared(smaller, task.with_model(build_model(smaller.model, source.size, target.size)))

    return replace(prepared(recipe, task), sizes=sizes_of(recipe), resize=resize)


def sizes_of(recipe: TranslateRecipe) -> list[TranslateRecipe]:
    """This recipe and two of smaller networks, where it leaves the size open; else none."""
    config: Any = recipe.model
    pretrained = recipe.embeddings.words or recipe.embeddings.source or recipe.embeddings.target
    if pretrained or recipe.adapt.start or config.model_fields_set & {*SIZES, "decoder"}:
        return []
    if not {"layers", "width", "dropout"} <= type(config).model_fields.keys():  # a network of the user's own
        return []
    narrow = {key: getattr(config, key) // 2 for key in ("width", "embedding", "feedforward") if hasattr(config, key)}
    shallow = {**narrow, "layers": max(1, config.layers - 1)}
    models = [config.model_copy(update=update) for update in ({}, narrow, shallow)]
    return [recipe.model_copy(update={"model": model}) for model in models]


def decide_markup(
    recipe: TranslateRecipe, pairs: Rows[Pair], resuming: bool
) -> tuple[TranslateRecipe, tuple[Decision, ...]]:
    """The recipe with the kinds of markup that its training pairs copy, where it leaves them open."""
    data, kinds = recipe.data, tuple[str, ...]()
    if data.markup != "auto" or resuming or recipe.adapt.start is not None:
        return recipe, ()
    if recipe.tokenizer.kind in ("bpe", "unigram") and not data.source_heads:
        step = max(1, -(-len(pairs) // MARKUP_SAMPLE))
        sample = pairs.choose(range(0, len(pairs), step))
        kinds = copied_kinds((pair.source, pair.target) for pair in sample)
    decided = recipe.model_copy(update={"data": data.model_copy(update={"markup": kinds})})
    reason = "the kinds that most training pairs copy" if kinds else "few training pairs have markup that they copy"
    return decided, (Decision("data.markup", kinds, reason),)


def learn_tokenizers(recipe: TranslateRecipe, pairs: Rows[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides; where markup is replaced, of text with symbols."""
    config, seed = recipe.tokenizer, recipe.train.seed
    if not recipe.data.markup:
        return train_tokenizers(config, pairs.column(0), pairs.column(1), seed)
    count = len(pairs)
    lines = range(count) if count <= config.max_lines else sorted(Random(seed).sample(range(count), config.max_lines))
    rows = pairs.choose(lines)
    columns = [pair.source for pair in rows], [pair.target for pair in rows]
    masked = Placeholders(frozenset(recipe.data.markup)).mask_columns(columns)
    return train_tokenizers(config, masked[0], masked[1], seed, SYMBOLS)


def general_corpus(recipe: TranslateRecipe, own: Corpus) -> Corpus | None:
    """The pairs that `adapt.mix` rehearses, some held out as `[data]` does by default; None where there are none.

    Sources that are held out of the own corpus are not rehearsed.
    """
    if recipe.adapt.mix is None:
        return None
    shared = {key: getattr(recipe.data, key) for key in ("lowercase", "source_heads", "max_characters", "seed")}
    general = read_corpus(DataConfig.model_validate({"source": recipe.adapt.mix, **shared}))
    held_out = {pair_key(pair.source, pair.target) for pairs in (own.valid, *own.tests.values()) for pair in pairs}
    rehearsed = [pair for pair in general.train if pair_key(pair.source, pair.target) not in held_out]
    return replace(general, train=rehearsed)


def open_start(recipe: TranslateRecipe, model: TranslationModel, start: Path) -> Adapter | None:
    """Give a model the weights of the folder that it starts from; the adapter of `adapt.rank`, if there is to be one.

    Raises:
        UserError: the weights do not fit, or have no digest, as those of harken 0.1.
    """
    load_weights(model, start / MODEL)
    if recipe.adapt.rank is None:
        return None
    digest = stored_metadata(start / MODEL).get(DIGEST)
    if digest is None:
        raise UserError(
            f"{start / MODEL} has no digest that an adapter could refer to, as it is of harken 0.1; write the folder "
            "anew with harken export --to harken"
        )
    return Adapter(model, recipe.adapt.rank, digest)


def fill_embeddings(
    pretrained: PretrainedEmbeddings,
    recipe: TranslateRecipe,
    texts: tuple[Sequence[str], Sequence[str]],
    model: TranslationModel,
    source: Tokenizer,
    target: Tokenizer,
) -> None:
    """Pretrained embeddings for either side; one table for both is filled once."""
    decoder = getattr(recipe.model, "decoder", None)
    keys = width_key(recipe.model), width_key(decoder, "model.decoder") if decoder else width_key(recipe.model)
    if model.source_embedding is model.target_embedding:
        pretrained.fill(model.source_embedding.weight, words_of(source), chain(*texts), keys[0])
        return
    pretrained.fill(model.source_embedding.weight, words_of(source), texts[0], keys[0], side="source")
    pretrained.fill(model.target_embedding.weight, words_of(target), texts[1], keys[1], side="target")


def summarise(
    recipe: TranslateRecipe,
    corpus: Corpus,
    source: Tokenizer,
    target: Tokenizer,
    pretrained: PretrainedEmbeddings,
    general: Corpus | None = None,
    adapter: Adapter | None = None,
) -> Summary:
    """The run in facts."""
    kind, joint = recipe.tokenizer.kind, ", joint" if recipe.tokenizer.joint else ""
    skipped = {reason: count for reason, count in sorted(corpus.skipped.items()) if count}
    is_shared = inner_tokenizer(source) is inner_tokenizer(target)
    pieces = f"{source.size:,}" if is_shared else f"{source.size:,} and {target.size:,}"
    copied = f"copied: {' '.join(recipe.data.markup)}" if recipe.data.markup not in ("auto", ()) else ""
    facts = {
        "lines skipped": format_skipped(skipped),
        "vocabulary": f"{kind}, {source.size:,} source and {target.size:,} target pieces{joint}",
        **({"markup": copied} if copied else {}),
        **pretrained.facts,
    }
    if recipe.adapt.start is not None:
        facts["fine-tuned from"] = recipe.adapt.start
    if adapter is not None:
        facts["adapter"] = f"{adapter.title}, added to the weights of the start"
    if general is not None:
        facts["rehearsed"] = (
            f"{recipe.adapt.mix_share:.0%} of each epoch, out of {len(general.train):,} pairs of {general.name}; "
            f"{len(general.valid):,} held out"
        )
    return Summary(
        corpus.name,
        recipe.model.title,
        len(corpus.train),
        len(corpus.valid),
        unit="pairs",
        data_summary=f"{corpus.source_language} -> {corpus.target_language}",
        input_summary=f"{pieces} {kind} pieces",
        languages=f"{corpus.source_language}-{corpus.target_language}",
        skipped=skipped,
        tests={name: len(pairs) for name, pairs in corpus.tests.items()},
        skipped_unit="lines",
        facts=facts,
        notes=[
            *pretrained.notes,
            *([f"markup {copied}"] if copied else []),
            *([] if adapter is None else [f"adapter {adapter.title}"]),
        ],
    )
