"""Trained translators in the formats of other runtimes: ONNX, CTranslate2, Hugging Face's and Argos Translate's.

The format "harken" is a model folder that needs no other: an adapter is merged into the weights of its base.

model = harken.load("runs/demo")
export_model(model, "onnx", "runs/demo-onnx")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harken.export.marks import marks_of
from harken.files import atomic_folder, expand_user

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

__all__ = ["FORMATS", "export_model"]

Format = Literal["onnx", "ctranslate2", "huggingface", "argos", "harken"]
FORMATS = {
    "onnx": "ONNX",
    "ctranslate2": "CTranslate2",
    "huggingface": "Hugging Face's format",
    "argos": "a package of Argos Translate",
    "harken": "a model folder of harken",
}

README = """# {name}

A translator that harken exported to {format}. It is the network and its tokenizers, without what
`harken translate` does around them:

- A word that the source tokenizer has no id for is read in lower case, or without the end mark (`.`, `!`, `…`), if it
  has an id so; a capital at the start and the end mark are put back into the translation. Without this step
  "THE BLACK CAT SLEEPS ." is read as unknown words by a model that was trained on lower-case text.
- The recipe searches with `stopping = "{stopping}"` and `length_penalty = {length_penalty:g}`; a glossary replaces
  words of the translation.
- Texts longer than the model reads are split.
"""
MARKS = """- Tokens stand around every text: before a source {source_prefix}, after it {source_suffix}, and before a
  target {target_prefix}, which the search is given as its beginning.
"""


def export_model(translator: Translator, to: Format, out: Path | str) -> Path:
    """Write a translator into a new or an empty folder, which appears when everything in it is complete.

    Raises:
        UserError: the folder is not empty, the model has a part or an option that the format has no form for, or the
            format's package is not installed.
    """
    from harken.export.argos import export_argos
    from harken.export.ctranslate2 import export_ctranslate2
    from harken.export.huggingface import export_huggingface
    from harken.export.onnx import export_onnx

    exporters = {
        "onnx": export_onnx,
        "ctranslate2": export_ctranslate2,
        "huggingface": export_huggingface,
        "argos": export_argos,
    }
    if to == "harken":
        return _export_whole(translator, out)
    with atomic_folder(out) as temporary:
        (temporary / "README.md").write_text(_describe(translator, to), encoding="utf-8")
        exporters[to](translator, temporary)
    return expand_user(out)


def _export_whole(translator: Translator, out: Path | str) -> Path:
    """Write a copy of the translator's folder with all weights in it."""
    from harken.tasks.averaging import copy_files
    from harken.tasks.registry import job_of
    from harken.training.folder import CARD, MODEL
    from harken.training.weights import save_tensors, state_of

    assert translator.folder is not None, "a translator of `harken.load` has its folder"
    with atomic_folder(out) as temporary:
        save_tensors(temporary / MODEL, state_of(translator.model))
        copy_files(translator.folder, temporary, {CARD, *job_of(translator.recipe.task).artifact_names()})
    return expand_user(out)


def _describe(translator: Translator, to: str) -> str:
    """The README of an exported folder: what a caller has to do besides running the network."""
    search, marks = translator.recipe.search, marks_of(translator)
    named = {
        name: " ".join(translator.source.pieces(ids)) or "none" for name, ids in marks._asdict().items()
    }  # one vocabulary
    text = README + (MARKS if any(marks) and to != "huggingface" else "")
    return text.format(
        **named,
        name="Exported translator" if translator.folder is None else translator.folder.name,
        format=FORMATS[to],
        stopping=search.stopping,
        length_penalty=search.length_penalty,
    )
