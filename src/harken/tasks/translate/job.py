"""From a recipe for translation to a run, and from a folder to a `Translator`; its scores, and its attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from harken.data.fingerprints import InputFile
from harken.data.io.files import input_path
from harken.data.io.folders import splits_in_folder
from harken.data.text.inputs import Inputs, evaluated_pairs, place, source_inputs
from harken.data.text.pairs import Corpus, Pair
from harken.data.text.parallel import corpus_of_table, pairs_of_table, read_corpus
from harken.errors import UserError
from harken.metrics import compare_systems
from harken.tasks.artifacts import Artifact
from harken.tasks.job import FileReading, Job, Prepared
from harken.tasks.predictor import Progress, network_facts
from harken.tasks.scores import Scores, bleu_on_card
from harken.tasks.translate.cold_start import open_stored, store, why_not_stored
from harken.tasks.translate.decoding.shortlist import SHORTLIST
from harken.tasks.translate.evaluation import agreement_metrics, scores_of
from harken.tasks.translate.interface import INTERFACE
from harken.tasks.translate.operations import TranslationOperations
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.seen_words import SEEN_WORDS
from harken.tasks.translate.translation import TranslationFigure
from harken.tasks.translate.translator import TOKENIZERS, Translator


class TranslateJob(TranslationOperations, Job):
    """See `harken.tasks.job`; files come in pairs, sources first."""

    predictor = Translator
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZERS, SHORTLIST, SEEN_WORDS)
    interface = INTERFACE
    paired_metric = "bleu"
    table_key = "source"
    table_instead_of = ("corpus", "dir", "pair", "target", "valid", "test")
    options = frozenset(
        (
            *("source", "reference", "target", "beam", "compare", "layers", "format", "text_column", "label_column"),
            *("precision", "shortlist"),
        )
    )

    def load_data(self, recipe: TranslateRecipe) -> Corpus:
        return read_corpus(recipe.data)

    def read_table(self, recipe: TranslateRecipe, table: dict[str, list[Any]]) -> list[Pair]:
        return list(pairs_of_table(recipe.data, table))

    def load_table(self, recipe: TranslateRecipe, table: dict[str, list[Any]]) -> Corpus:
        return corpus_of_table(recipe.data, table)

    def input_files(self, recipe: TranslateRecipe) -> list[InputFile]:
        """Every file that is read; of a folder those of the two languages, each by its name."""
        files = [source for source in super().input_files(recipe) if source.key != "data.dir"]
        if recipe.data.dir:
            splits = splits_in_folder(recipe.data.dir, recipe.data.pair).values()
            paths = [Path(file) for split in splits for side in split for file in side]
            files += [InputFile("data.dir", path, path.name) for path in paths]
        return files

    def prepare_data(self, recipe: TranslateRecipe, corpus: Corpus, folder: Path, resuming: bool) -> Prepared:
        from harken.tasks.translate.preparing import prepare_run  # imports torch, as a run needs it

        return prepare_run(recipe, corpus, folder, resuming)

    def open_quickly(
        self, folder: Path, recipe: TranslateRecipe, device: str, report: Callable[[str], None]
    ) -> Translator:
        """The translator without torch, by the stored description of its decoder; with its network where there is none.

        Args:
            report: called with the reason for which the network is built.
        """
        reason = why_not_stored(folder, recipe, device)
        if reason is None:
            translator = open_stored(folder, recipe, lambda: self.open(folder, recipe, "cpu").model)
            if translator is not None:
                return translator
            reason = "what is stored of it is damaged, or the kernels are not compiled (harken warm)"
        report(f"the network is built, with torch: {reason}")
        translator = self.open(folder, recipe, device)
        self.prepare_opening(translator)
        return translator

    def prepare_opening(self, model: Translator) -> bool:
        return store(model, network_facts(model) | self.facts(model))

    def read_files(
        self, model: Translator, files: Sequence[Path], reading: FileReading
    ) -> tuple[Sequence[Pair], list[str]]:
        return evaluated_pairs(model.recipe.data, files, *reading[:3])

    def score(
        self,
        model: Translator,
        examples: Sequence[Pair],
        progress: Progress,
        beam: int | None = None,
        compare: Translator | Sequence[str] | None = None,
        test: Literal["bootstrap", "randomisation"] = "bootstrap",
        precision: Literal["float32", "int8", "auto"] | None = None,
        shortlist: int | None = None,
    ) -> Scores:
        """BLEU, chrF, exact match and alignment error.

        Args:
            compare: another translator, or its translations.
            precision, shortlist: as the keys of the recipe's [search] table; with a shortlist above 0 the translations
                are also compared with those of the whole vocabulary.
        """
        result = model.evaluate(examples, beam=beam, progress=progress, precision=precision, shortlist=shortlist)
        comparison = None
        if compare is not None:
            if not isinstance(compare, list | tuple):
                translations = compare.translate([pair.source for pair in examples], beam=beam, attention=False)  # type: ignore[union-attr]
                compare = [translation.text for translation in translations]
            if len(compare) != len(examples):
                raise UserError(f"--compare has {len(compare):,} lines, but {len(examples):,} sentences are scored")
            comparison = compare_systems(result.hypotheses, compare, [pair.target for pair in examples], test)
        scores = scores_of(result, comparison)
        scores.sources = [pair.source for pair in examples]
        if shortlist:
            scores.metrics += agreement_metrics(model, examples, result, shortlist, beam=beam, precision=precision)
        return scores

    def predict(self, model: Translator, examples: Sequence[str], options: Any, progress: Progress) -> list[str]:
        translations = model.translate(list(examples), attention=False)
        progress(len(examples))
        return [translation.text for translation in translations]

    def read_inputs(self, model: Translator, path: Path | None, form: str, column: str | None) -> Inputs:
        return source_inputs(input_path(path), model.recipe.data, form, place(column))

    def attention_figure(
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

    def validation(self, best: dict[str, Any]) -> str:
        return (
            f"{bleu_on_card(best)}, chrF {best.get('chrf', math.nan):.2f} by greedy search, "
            f"exact match {best.get('exact_match', math.nan):.2f}%, "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )

    def comparison(self, recipe: TranslateRecipe, metrics: Sequence[dict[str, Any]]) -> dict[str, str]:
        """BLEU and chrF of the start and of the fine-tuned model, on own and on general held-out pairs."""
        validations = [entry for entry in metrics if entry.get("kind") == "valid"]
        if recipe.adapt.start is None or not validations:
            return {}
        before, after = validations[0], next(entry for entry in reversed(validations) if entry.get("best"))
        rows = {}
        for name, prefix in (("own pairs", ""), ("general pairs", "general_")):
            if f"{prefix}bleu" in before:
                bleu, chrf = ([entry[f"{prefix}{key}"] for entry in (before, after)] for key in ("bleu", "chrf"))
                rows[f"{name}, before -> after"] = (
                    f"BLEU {bleu[0]:.2f} -> {bleu[1]:.2f}, chrF {chrf[0]:.2f} -> {chrf[1]:.2f}"
                )
        if after["step"] == 0:
            rows["weights"] = "those of the start: no validation was better, so what was trained is not kept"
        return rows


JOB = TranslateJob()
