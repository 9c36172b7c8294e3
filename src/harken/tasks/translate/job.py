"""From a recipe for translation to a run, and from a folder to a `Translator`; its scores, and its attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from harken.data.text.inputs import evaluated_pairs
from harken.data.text.pairs import Corpus, Pair
from harken.data.text.parallel import read_corpus
from harken.data.tokenizers.base import Tokenizer, train_tokenizers
from harken.errors import UserError
from harken.metrics import compare_systems, corpus_bleu
from harken.models.build import build_model
from harken.models.encoder_decoder import TranslationModel
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.job import Job, Prepared, Summary, skipped_in_words
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Scores
from harken.tasks.splits import find_split
from harken.tasks.translate.evaluation import scores_of
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.task import TranslationTask
from harken.tasks.translate.translation import TranslationFigure
from harken.tasks.translate.translator import TOKENIZERS, Translator


class TranslateJob(Job):
    """See `harken.tasks.job`; files come in pairs, sources first."""

    predictor = Translator
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZERS,)
    usage = "harken translate {}"
    options = frozenset(
        ("source", "reference", "target", "beam", "compare", "layers", "format", "text_column", "label_column")
    )

    def prepare(self, recipe: TranslateRecipe, folder: Path, resuming: bool) -> Prepared:
        corpus = read_corpus(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        texts = [pair.source for pair in corpus.train], [pair.target for pair in corpus.train]
        source, target = TOKENIZERS.learn_or_load(
            folder, resuming, lambda: train_tokenizers(recipe.tokenizer, *texts, recipe.train.seed)
        )
        model = build_model(recipe.model, source.size, target.size)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        fill_embeddings(pretrained, recipe, texts, model, source, target)
        task = TranslationTask(recipe, corpus, model, source, target)
        summary = summarise(recipe, corpus, source, target, pretrained)
        return summary.prepared(task, measure(model).flops)

    def evaluate(
        self,
        model: Translator,
        split: str | None,
        files: list[Path],
        progress: Callable[[int], None],
        beam: int | None = None,
        compare: Translator | Sequence[str] | None = None,
        test: Literal["bootstrap", "randomisation"] = "bootstrap",
        format: str = "auto",
        text_column: str | None = None,
        label_column: str | None = None,
    ) -> Scores:
        """BLEU, chrF, exact match and alignment error.

        Args:
            compare: another translator, or its translations.
            format, text_column, label_column: how a file with both sides is read, where not as the training data.
        """
        notes: list[str] = []
        pairs: Sequence[Pair]
        if files:
            pairs, notes = evaluated_pairs(model.recipe.data, files, format, text_column, label_column)
        else:
            pairs = self.examples(model, split)
        result = model.evaluate(pairs, beam=beam, progress=progress)
        if compare is None:
            scores = scores_of(result)
            scores.notes += notes
            return scores
        if not isinstance(compare, list | tuple):
            found = compare.translate([pair.source for pair in pairs], beam=beam, attention=False)  # type: ignore[union-attr]
            compare = [translation.text for translation in found]
        if len(compare) != len(pairs):
            raise UserError(f"--compare has {len(compare):,} lines, but {len(pairs):,} sentences are scored")
        comparison = compare_systems(result.hypotheses, compare, [pair.target for pair in pairs], test)
        scores = scores_of(result, comparison)
        scores.notes += notes
        return scores

    def look(
        self, model: Translator, example: str, target: str | None = None, layers: bool = False, beam: int | None = None
    ) -> TranslationFigure:
        """The alignment map of a translation: the model's own, or `target` under teacher forcing."""
        if target is None:
            best = model.translate(example, beam=beam, attention=True, layers=layers)
        else:
            best = model.align(example, target, layers=layers)
        if best.attention is None:
            raise UserError(
                f"{model.folder} has no attention to draw; train one that has, such as phrasebook-attention"
            )
        return TranslationFigure(best, layers)

    def examples(self, model: Translator, split: str | None, files: Sequence[Path] = ()) -> Sequence[Pair]:
        if files:
            return evaluated_pairs(model.recipe.data, files)[0]
        corpus = read_corpus(model.recipe.data)
        known = {"valid": corpus.valid, **corpus.tests}
        return find_split(corpus.name, known, split, remedy="files")

    def validation(self, best: dict[str, Any]) -> str:
        signature = corpus_bleu(["one"], ["one"]).signature.replace("|", r"\|")  # a bar would end the table's cell
        return (
            f"BLEU {best.get('bleu', math.nan):.2f} by greedy search ({signature}), "
            f"exact match {best.get('exact_match', math.nan):.2f}%, "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )


JOB = TranslateJob()


def fill_embeddings(
    pretrained: PretrainedEmbeddings,
    recipe: TranslateRecipe,
    texts: tuple[list[str], list[str]],
    model: TranslationModel,
    source: Tokenizer,
    target: Tokenizer,
) -> None:
    """Pretrained embeddings for either side; one table for both is filled once."""
    decoder = getattr(recipe.model, "decoder", None)
    keys = width_key(recipe.model), width_key(decoder, "model.decoder") if decoder else width_key(recipe.model)
    if model.source_embedding is model.target_embedding:
        pretrained.fill(model.source_embedding.weight, words_of(source), [*texts[0], *texts[1]], keys[0])
        return
    pretrained.fill(model.source_embedding.weight, words_of(source), texts[0], keys[0], side="source")
    pretrained.fill(model.target_embedding.weight, words_of(target), texts[1], keys[1], side="target")


def summarise(
    recipe: TranslateRecipe, corpus: Corpus, source: Tokenizer, target: Tokenizer, pretrained: PretrainedEmbeddings
) -> Summary:
    """The run in facts."""
    kind, joint = recipe.tokenizer.kind, ", joint" if recipe.tokenizer.joint else ""
    skipped = {reason: count for reason, count in sorted(corpus.skipped.items()) if count}
    pieces = f"{source.size:,}" if source is target else f"{source.size:,} and {target.size:,}"
    facts = {
        "lines skipped": skipped_in_words(skipped),
        "vocabulary": f"{kind}, {source.size:,} source and {target.size:,} target pieces{joint}",
        **pretrained.facts,
    }
    return Summary(
        corpus.name,
        recipe.model.title,
        len(corpus.train),
        len(corpus.valid),
        unit="pairs",
        about=f"{corpus.source_language} -> {corpus.target_language}",
        reads=f"{pieces} {kind} pieces",
        languages=f"{corpus.source_language}-{corpus.target_language}",
        skipped=skipped,
        skipped_unit="lines",
        facts=facts,
        notes=pretrained.said,
    )
