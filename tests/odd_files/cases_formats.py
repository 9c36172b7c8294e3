"""Files and folders of other formats than tables, as archives, tools and shared tasks write them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .case import Case

NOUNS = ("cat", "dog", "bird", "horse", "mouse", "fish", "queen", "child", "train", "boat")
FRENCH = ("chat", "chien", "oiseau", "cheval", "rat", "poisson", "reine", "enfant", "train", "bateau")
ENGLISH_LINES = [f"the {noun} number {number} sleeps in the old house" for number in range(6) for noun in NOUNS]
FRENCH_LINES = [f"le {noun} numéro {number} dort dans la vieille maison" for number in range(6) for noun in FRENCH]
PAIRS: list[tuple[str, ...]] = list(zip(ENGLISH_LINES, FRENCH_LINES, strict=True))


@dataclass(frozen=True)
class Trains:
    """A job follows: the examples of all splits, or a part of what `harken check` says of them; values of `[data]`."""

    task: str
    examples: int | str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """One sentence says what to do: parts of it."""

    parts: tuple[str, ...]


def folder(files: Mapping[str, str | bytes]) -> Callable[[Path], object]:
    """Write a folder of files; a name may have folders in it."""

    def write(path: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def with_partner(path: Path) -> None:
    """Write the two files of moses pairs, compressed."""
    path.write_bytes(gzip.compress(lines(ENGLISH_LINES).encode()))
    path.with_name(path.name.replace(".en.gz", ".fr.gz")).write_bytes(gzip.compress(lines(FRENCH_LINES).encode()))


def packed(files: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return stream.getvalue()


def zipped(files: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def tmx(pairs: list[tuple[str, ...]], languages: tuple[str, ...] = ("en-US", "fr")) -> str:
    variant = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
    units = ["".join(map(variant.format, languages, texts)) for texts in pairs]
    header = '<header creationtool="x" segtype="sentence" adminlang="en" srclang="en-US" datatype="plaintext"/>'
    body = "".join(f"<tu>{unit}</tu>\n" for unit in units)
    start = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{start}<tmx version="1.4">{header}<body>{body}</body></tmx>'


XLIFF_1 = (
    '<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" '
    'source-language="en" target-language="fr" datatype="plaintext"><body>'
    + "".join(
        f'<trans-unit id="{n}"><source>{a} <g id="1">now</g><x id="2"/></source><target>{b}</target></trans-unit>'
        for n, (a, b) in enumerate(PAIRS)
    )
    + '<trans-unit id="new"><source>not translated yet</source></trans-unit></body></file></xliff>'
)
XLIFF_2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr"><file id="f">'
    + "".join(
        f'<unit id="u{n}"><segment><source>{a}</source><target>{b}</target></segment></unit>'
        for n, (a, b) in enumerate(PAIRS)
    )
    + "</file></xliff>"
)
CONLL_2003 = "-DOCSTART- -X- -X- O\n\n" + "".join(
    f"EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n{noun} NN I-NP O\n. . O O\n\n" for noun in NOUNS * 3
)
CONLLU = "".join(
    f"# sent_id = {n}\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n"
    f"2\t{noun}\t{noun}\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    for n, noun in enumerate(NOUNS * 3)
)
BABI = "".join(
    f"1 Mary moved to the {room}.\n2 John went to the hallway.\n3 Where is Mary? \t{room}\t1\n"
    for room in ("kitchen", "garden", "office") * 10
)
TS = "@problemName x\n@timeStamps false\n@univariate true\n@classLabel true a b\n@data\n" + "".join(
    f"{','.join(str((n * step) % 7 + 0.5) for step in range(12))}:{'ab'[n % 2]}\n" for n in range(40)
)
ARFF = (
    "% a comment\n@relation x\n"
    + "".join(f"@attribute att{n} numeric\n" for n in range(12))
    + (
        "@attribute target {a,b}\n\n@data\n"
        + "".join(f"{','.join(str((n * step) % 7 + 0.5) for step in range(12))},{'ab'[n % 2]}\n" for n in range(40))
    )
)
MULTIVARIATE = (
    "@relation x\n@attribute signals relational\n@attribute t numeric\n@end signals\n@attribute target {a,b}\n@data\n"
    + "".join(rf"'0.5,{n},2.5\n3.5,1,{n}.5',{'ab'[n % 2]}" + "\n" for n in range(40))
)
UCR = "".join(
    "\t".join([str(n % 2 + 1), *(f"{(n * step) % 7 + 0.25:.4f}" for step in range(12))]) + "\n" for n in range(40)
)
M4 = (
    ",".join(f'"V{n}"' for n in range(1, 42))
    + "\n"
    + "".join(
        ",".join([f'"H{n}"', *(str(100 + (7 * n + 3 * step) % 24) for step in range(40 - n)), *[""] * n]) + "\n"
        for n in range(6)
    )
)
REVIEWS = {
    f"{split}/{label}/{n}.txt": f"the film number {n} of {split} was {label}\nand long\n"
    for split, count in (("train", 20), ("test", 5)) for label in ("good", "bad") for n in range(count)
}  # fmt: skip
NOTEBOOK = json.dumps({"cells": [{"cell_type": "markdown", "source": ["text"]}], "nbformat": 4})
RECIPE = 'task = "classify"\n\n[data]\ncorpus = "opinions"\n'
PENN = "".join(f" the <unk> {noun} sold N million shares \n" for noun in NOUNS * 8)

CASES = [
    Case("memory.tmx", tmx(PAIRS).encode(), Trains("translate", 60, {"source_language": "en"}), "TMX"),
    Case("memory16.tmx", tmx(PAIRS).replace('"1.0"', '"1.0" encoding="utf-16"', 1).encode("utf-16"),
         Trains("translate", 60, {"target_language": "fr"}), "TMX in UTF-16"),
    Case("three.tmx", tmx([(a, b, a) for a, b in PAIRS], ("en", "fr", "de")).encode(),
         Refused(("units in en, fr, de", "--pair en-fr --out runs/three")), "TMX in three languages"),
    Case("map.tmx", b'<map version="1.0"><layer/></map>', Refused(("no unit with texts in two languages",)),
         "a map of another program in TMX"),
    Case("cut.tmx", tmx(PAIRS).encode()[:2000], Refused(("no well-formed XML", "export")), "a damaged TMX"),
    Case("app.xlf", XLIFF_1.encode(), Trains("translate", 60), "XLIFF 1.2"),
    Case("app.xliff", XLIFF_2.encode(), Trains("translate", 60, {"target_language": "fr"}), "XLIFF 2.0"),
    Case("opus.zip", zipped({"README": "x", "LICENSE": "y", "Books.en-fr.en": lines(ENGLISH_LINES),
                             "Books.en-fr.fr": lines(FRENCH_LINES), "Books.en-fr.xml": "<x/>"}),
         Trains("translate", 60, {"source_column": "en"}), "moses pairs of OPUS in a zip"),
    Case("short.zip", zipped({"Books.en-fr.en": lines(ENGLISH_LINES), "Books.en-fr.fr": lines(FRENCH_LINES[:-1])}),
         Refused(("Books.en-fr.fr ends before line 60",)), "moses pairs that are not aligned"),
    Case("opus", None, Trains("translate", 60, {"source_language": "en", "target_language": "fr"}),
         "a folder of moses pairs",
         folder({"README": "x", "a.en-fr.en": lines(ENGLISH_LINES), "a.en-fr.fr": lines(FRENCH_LINES)})),
    Case("a.en-fr.en.gz", None, Trains("translate", 60, {"target_language": "fr"}), "moses pairs, compressed",
         with_partner),
    Case("portuguese", None, Trains("translate", 60, {"pair": "en-pt"}), "an ending that weights of models have, too",
         folder({"train.en": lines(ENGLISH_LINES), "train.pt": lines(FRENCH_LINES)})),
    Case("splits", None, Trains("translate", 180, {"pair": "en-fr"}), "train.LANG, val.LANG, test.LANG",
         folder({f"{split}.{code}": lines([f"{split[:2]} {line}" for line in text])
                 for split in ("train", "val", "test")
                 for code, text in (("en", ENGLISH_LINES), ("fr", FRENCH_LINES))})),
    Case("tokenized", None, Trains("translate", 180, {"target_language": "fr"}), "train.tok.LANG, val.tok.LANG ...",
         folder({f"{split}.tok.{code}": lines([f"{split[:2]} {line}" for line in text])
                 for split in ("train", "val", "test_2016")
                 for code, text in (("en", ENGLISH_LINES), ("fr", FRENCH_LINES))})),
    Case("sides", None, Trains("translate", 60, {"pair": "src-tgt", "target_language": "fr"}),
         "train.src and train.tgt",
         folder({"train.src": lines(ENGLISH_LINES), "train.tgt": lines(FRENCH_LINES)}), "py3langid"),
    Case("film.srt", b"1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n", Refused(("a subtitle file", "film.txt")), "SRT"),
    Case("film.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello.\n", Refused(("a subtitle file", "grep")), "WebVTT"),
    Case("ewt.conllu", CONLLU.encode(), Trains("tag", 30, {"format": "conllu"}), "CoNLL-U"),
    Case("ewt.txt", CONLLU.encode(), Trains("tag", 30, {"format": "conllu"}), "CoNLL-U called .txt"),
    Case("eng.train", CONLL_2003.encode(), Trains("tag", 30, {"format": "conll"}), "CoNLL-2003"),
    Case("ner.bio", "".join(f"the\tO\n{noun}\tB-animal\n\n" for noun in NOUNS * 4).encode(),
         Trains("tag", 40), "BIO columns"),
    Case("Motions_TRAIN.ts", TS.encode(), Trains("classify", 40), "UEA's .ts"),
    Case("Coffee.arff", ARFF.encode(), Trains("classify", 40), "UCR's .arff"),
    Case("Motions.arff", MULTIVARIATE.encode(), Trains("classify", 40), "UEA's .arff of several channels"),
    Case("Coffee_TRAIN.tsv", UCR.encode(), Trains("classify", 40, {"format": "ucr"}), "UCR's .tsv"),
    Case("Coffee", None, Trains("classify", 80), "UCR's folder",
         folder({"Coffee_TRAIN.tsv": UCR, "Coffee_TEST.tsv": UCR.replace("0.25", "0.75"), "README.md": "about"})),
    Case("Hourly-train.csv", M4.encode(), Trains("forecast", "6 series", {"group": "series"}), "M4's series in rows"),
    Case("qa1_train.txt", BABI.encode(), Trains("answer", 30), "bAbI"),
    Case("tasks_1-20", None, Trains("answer", 60), "the folder of bAbI",
         folder({f"en/qa{n}_facts_{split}.txt": BABI.replace("Mary", f"Mary{n}{split}")
                 for n in (1, 2) for split in ("train", "test")})),
    Case("en", None, Trains("answer", 60), "the inner folder of bAbI",
         folder({f"qa{n}_facts_{split}.txt": BABI.replace("Mary", f"Mary{n}{split}")
                 for n in (1, 2) for split in ("train", "test")})),
    Case("tasks.tar.gz", packed({f"tasks/en/qa1_facts_{split}.txt": BABI.replace("Mary", f"Mary{split}")
                                 for split in ("train", "test")}), Trains("answer", 30), "the archive of bAbI"),
    Case("unpacked", None, Trains("classify", 50), "a folder alone in a folder, as archives unpack",
         folder({f"reviews/{name}": text for name, text in REVIEWS.items()})),
    Case("cooking.train", "".join(f"__label__{'ab'[n % 2]} how do I cook it {n}?\n" for n in range(40)).encode(),
         Trains("classify", 40, {"format": "prefix"}), "fastText"),
    Case("ptb.train.txt", PENN.encode(), Trains("language", "training"), "the Penn Treebank's text"),
    Case("reviews", None, Trains("classify", 50), "a folder for each class, in train and test", folder(REVIEWS)),
    Case("names", None, Trains("classify", 8), "a text file for each class",
         folder({"Greek.txt": "Pavlou\nAdamou\nKallis\nSavva\n", "Irish.txt": "Byrne\nDaly\nKeogh\nQuinn\n"})),
    Case("letter.docx", zipped({"word/document.xml": "<w/>"}), Refused(("a document", "pandoc", "letter.txt")), "Word"),
    Case("paper.pdf", b"%PDF-1.7\n\0", Refused(("a PDF", "pdftotext", "paper.txt")), "PDF"),
    Case("lab.ipynb", NOTEBOOK.encode(), Refused(("a notebook", "nbconvert")), "a notebook"),
    Case("page.html", b"<html><body>text</body></html>", Refused(("a document", "pandoc")), "HTML"),
    Case("corpus.tar.gz", b"\x1f\x8b", Refused(("an archive", "tar -xf")), "a tar archive"),
    Case("several.zip", zipped({"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n1,2\n"}), Refused(("an archive", "unzip")),
         "a zip of several tables"),
    Case("broken.zip", b"PK no archive", Refused(("no zip archive", "download it again")), "a damaged zip"),
    Case("~$book.xlsx", b"\x05user", Refused(("a lock file of Excel", "book.xlsx")), "Excel's lock file"),
    Case(".~lock.book.ods#", b",user,", Refused(("a lock file of LibreOffice", "book.ods")), "LibreOffice's lock file"),
    Case("empty", None, Refused(("is an empty folder",)), "an empty folder", folder({})),
    Case("cat.png", b"\x89PNG", Refused(("is a single file", "give the folder")), "an image"),
    Case("run", None, Refused(("is a model folder", "recipe.toml")), "a model folder",
         folder({"recipe.toml": RECIPE, "model.safetensors": b"\0"})),
    Case("model.safetensors", b"\0", Refused(("a stored model", "harken predict")), "a model's weights"),
    Case("table.db", b"SQLite format 3\0", Refused(("a database", "sqlite3")), "a database"),
]  # fmt: skip
