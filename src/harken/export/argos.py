"""Transformers as packages of Argos Translate, which LibreTranslate runs too.

    argostranslate.package.install_from_path("runs/argos/translate-en_fr-1_0.argosmodel")
    argostranslate.translate.translate("The black cat sleeps.", "en", "fr")

A package is a zip file of one folder: `metadata.json`, `model/` in CTranslate2's format, `sentencepiece.model`, by
which texts are encoded and translations decoded, and `minisbd/`, an ONNX model that finds the ends of sentences. Argos
Translate downloads such a model where a package has none; the one written here has no weights but rules:

- A sentence ends with ! or ? before white space, and with . or … unless a small letter follows.
- A closing quotation mark or bracket belongs to the sentence before it. Chinese and Japanese marks need no space.
- A full stop after a capital, or a capital and one small letter, is an abbreviation: J. S. Bach, Dr. Smith.
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harken.adopt.marian import LANGUAGE_TOKEN
from harken.adopt.pieces import with_spaces
from harken.data.text.languages import THREE_LETTERS, language_name, languages_of
from harken.data.tokenizers.subword import SPACE
from harken.errors import UserError
from harken.export.ctranslate2 import export_ctranslate2
from harken.export.graph import Graph
from harken.export.huggingface_files import subwords, write_json
from harken.export.marks import marks_of
from harken.files import atomic_path

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

FORM = "Argos Translate"
VERSION = "1.0"  # of the package
# Kinds of characters; MiniSBD fixes the first two.
PADDING, OTHER, STOP, STRONG, WIDE, CLOSING, WHITE, SMALL, CAPITAL = range(9)
CHARACTERS = {STOP: ".…", STRONG: "!?؟۔।", WIDE: "。！？", CLOSING: "\"'”’»)]}」』", WHITE: " ", SMALL: ",;:"}
BEFORE, AFTER = 3, 2  # characters around one that decide


def export_argos(translator: Translator, folder: Path) -> None:
    """Write the package into a folder that has its README.md.

    Raises:
        UserError: CTranslate2 has no form for the model, the languages are unknown, or `sentencepiece.model` cannot
            decode the translations.
    """
    codes = [code and THREE_LETTERS.get(code, code) for code in languages_of(translator.recipe.data)]
    if None in codes:
        raise UserError(
            f"{FORM} needs the languages of a package; set data.source_language and data.target_language in the "
            "recipe.toml of the model"
        )
    source, target = subwords(translator, FORM, joint=False)
    if any(LANGUAGE_TOKEN.fullmatch(piece.removeprefix(SPACE)) for piece in source.pieces(range(source.size))):
        raise UserError(f"{FORM} has no form for models with tokens of target languages; train one for a single pair")
    if len(target.fallback_ids) > 1 and len(source.fallback_ids) == 1:
        raise UserError(f"{FORM} decodes by the source's pieces, which lack bytes; train with tokenizer.joint = true")
    marks = marks_of(translator)
    if marks.source_suffix or max(len(marks.source_prefix), len(marks.target_prefix)) > 1:
        raise UserError(
            f"{FORM} has no form for tokens after a source, or for more than one before it, as mBART has them"
        )
    package = folder / f"translate-{codes[0]}_{codes[1]}-{VERSION.replace('.', '_')}"
    for part in ("model", "minisbd"):
        (package / part).mkdir(parents=True)
    start, _, prefix = (source.pieces(ids) for ids in marks)
    export_ctranslate2(translator, package / "model", "".join(start))
    for tokenizer in (package / "model").glob("*.model"):  # SentencePiece's, which stands beside the model here
        tokenizer.unlink()
    (package / "sentencepiece.model").write_bytes(with_spaces(source.model))
    (package / "README.md").write_bytes((folder / "README.md").read_bytes())
    write_sentence_model(package / "minisbd" / "sentences.onnx", str(codes[0]))
    metadata = metadata_of(str(codes[0]), str(codes[1]))
    write_json(package / "metadata.json", metadata | ({"target_prefix": prefix[0]} if prefix else {}))
    files = sorted(path for path in package.rglob("*") if path.is_file())
    with (
        atomic_path(package.with_suffix(".argosmodel")) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for file in files:
            archive.write(file, file.relative_to(folder))
    shutil.rmtree(package)


def metadata_of(source: str, target: str) -> dict[str, str]:
    """metadata.json."""
    languages = {"from_code": source, "from_name": language_name(source)}
    languages |= {"to_code": target, "to_name": language_name(target)}
    return {"type": "translate", "package_version": VERSION, "argos_version": "1.11", **languages}


def write_sentence_model(path: Path, language: str) -> None:
    """Write the rules as an ONNX model with the interface of MiniSBD's.

    It maps the kinds of characters `units` (B, T) and whether they are capitals, `features` (B, T, 1), to scores
    (B, T, 3) of going on, of the end of a word, which is never chosen, and of the end of a sentence.
    """
    graph = Graph()
    units = graph.input("units", ["batch", "time"], torch.int64)
    features = graph.input("features", ["batch", "time", 1])
    capital = graph.add("Greater", graph.add("Squeeze", features, graph.ints(2)), graph.constant(0.5))
    kinds = graph.add("Where", capital, graph.constant(CAPITAL, torch.int64), units)
    padded = graph.add("Pad", kinds, graph.ints(0, BEFORE, 0, AFTER), graph.constant(PADDING, torch.int64))
    size = graph.size(units, 1)

    def near(offset: int, *those: int) -> str:
        """(B, T): whether the character at an offset is of one of these kinds."""
        start = graph.ints(BEFORE + offset)
        values = graph.add("Slice", padded, start, graph.add("Add", start, size), graph.ints(1))
        return any_of(*(graph.add("Equal", values, graph.constant(kind, torch.int64)) for kind in those))

    def all_of(first: str, *others: str) -> str:
        for other in others:
            first = graph.add("And", first, other)
        return first

    def any_of(first: str, *others: str) -> str:
        for other in others:
            first = graph.add("Or", first, other)
        return first

    def none_of(*values: str) -> str:
        return graph.add("Not", any_of(*values))

    initial = all_of(near(-1, CAPITAL), near(-2, WHITE, PADDING))
    title = all_of(near(-1, SMALL), near(-2, CAPITAL), near(-3, WHITE, PADDING))
    follows = all_of(near(1, WHITE), none_of(near(2, SMALL)))
    end = any_of(
        all_of(near(0, STRONG), near(1, WHITE)),
        all_of(near(0, STOP), follows, none_of(initial, title)),
        all_of(near(0, CLOSING), near(-1, STOP, STRONG), follows),
        all_of(near(0, WIDE), none_of(near(1, WIDE, CLOSING))),
        all_of(near(0, CLOSING), near(-1, WIDE)),
    )
    scores = [graph.add("Cast", value, to=graph.onnx.TensorProto.FLOAT) for value in (none_of(end), end)]
    scores.insert(1, graph.add("Mul", scores[0], graph.constant(0.0)))
    stacked = graph.add("Concat", *(graph.add("Unsqueeze", value, graph.ints(2)) for value in scores), axis=2)
    graph.output("scores", stacked, ["batch", "time", 3])
    small = (chr(code) for code in range(sys.maxunicode + 1) if chr(code).islower())
    kind_of = {character: kind for kind, characters in CHARACTERS.items() for character in characters}
    kind_of = {"<PAD>": PADDING, "<UNK>": OTHER} | dict.fromkeys(small, SMALL) | kind_of
    graph.save(
        path,
        lang_code=language,
        config=json.dumps({"feat_funcs": ["capitalized"], "batch_size": 32}),
        vocab=json.dumps({"lang": language, "_unit2id": kind_of, "_id2unit": ["<PAD>", "<UNK>"]}),
    )
