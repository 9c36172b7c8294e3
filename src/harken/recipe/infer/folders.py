"""From a folder of data to a recipe: recordings or pictures with texts, a file for each class, splits by name."""

from __future__ import annotations

from pathlib import Path

from harken.data.io.files import COMPRESSIONS, ending, read_lines
from harken.errors import UserError
from harken.recipe.infer.columns import AUDIO, IMAGES
from harken.recipe.infer.files import NO_LANGUAGES, infer_file
from harken.recipe.infer.inferred import Inferred

TABLES = (".csv", ".tsv", ".jsonl", ".conllu", ".conll", ".ts")
HELD_OUT = {"valid": ("valid", "val", "dev"), "test": ("test",)}


def infer_folder(folder: Path, task: str | None, text: str | None, target: str | None, pair: str | None) -> Inferred:
    """The recipe of a folder; raises UserError as `harken.recipe.infer`."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    names = {path.name for path in files}
    if "recipe.toml" in names:
        raise UserError(f"{folder} is a model folder; give data, or the recipe {folder / 'recipe.toml'}")
    if any(name.startswith("Flickr8k.token.txt") for name in names):
        return Inferred("caption", "the files of Flickr8k", {"corpus": "flickr8k", "dir": str(folder)})
    if "train.npz.xz" in names:
        return Inferred("transcribe", "the spoken digits", {"dir": str(folder)})
    if pairs := _languages(files):
        return _parallel(folder, pairs, pair)
    for endings, job in ((AUDIO, "transcribe"), (IMAGES, "caption")):
        media = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings)
        if media:
            return _with_texts(folder, files, media, job, text, target)
    if tables := [path for path in files if ending(path) in TABLES]:
        return _splits(folder, tables, task, text, target)
    texts = [path for path in files if ending(path) == ".txt"]
    if any("train" in path.name.lower() for path in texts):
        inferred = _splits(folder, texts, task, text, target)
        if inferred.task != "language":
            return inferred
        return Inferred("language", "text files for training and testing", {"dir": str(folder)}, inferred.tables)
    if len(texts) > 1 and len(texts) == len(files) and task in (None, "classify"):
        return _by_class(folder, texts)
    raise UserError(
        f"{folder} holds neither tables, nor text files alone, nor recordings or pictures with their texts; give a "
        "file, or write a recipe with harken new"
    )


def _languages(files: list[Path]) -> list[str]:
    """The LANG of files train.LANG, plain or compressed."""
    bare = [path.stem if path.suffix in COMPRESSIONS else path.name for path in files]
    languages = [name.removeprefix("train.") for name in bare if name.startswith("train.") and name.count(".") == 1]
    return sorted(
        {name for name in languages if name.lower() not in NO_LANGUAGES}, key=lambda name: (name != "en", name)
    )


def _parallel(folder: Path, languages: list[str], pair: str | None) -> Inferred:
    if pair is None and len(languages) != 2:
        raise UserError(
            f"{folder} has train files in {', '.join(languages)}; say which two to translate with --set data.pair="
            f"{languages[0]}-{languages[-1]} (harken new: --pair)"
        )
    chosen = pair or "-".join(languages)
    return Inferred("translate", f"files train.LANG, {chosen}", {"dir": str(folder), "pair": chosen})


def _with_texts(
    folder: Path, files: list[Path], media: list[Path], job: str, text: str | None, target: str | None
) -> Inferred:
    """Recordings or pictures: a table in the folder names them, or a .txt beside each has its text."""
    tables = [path for path in files if ending(path) in TABLES]
    if tables:
        first = next((path for path in tables if "train" in path.name.lower()), tables[0])
        return infer_file(first, job, text, target)
    beside = [path for path in media if path.with_suffix(".txt").is_file()]
    if len(beside) < 0.9 * len(media):
        what, columns = ("recordings", "audio and text") if job == "transcribe" else ("pictures", "image and caption")
        raise UserError(
            f"{folder} has {len(media):,} {what}, but no texts to learn from them; add a table (CSV) with the columns "
            f"{columns}, or a .txt file beside each"
        )
    rows = [(str(path), " ".join(" ".join(read_lines(path.with_suffix(".txt"))).split())) for path in beside]
    data = {"audio_column": "audio", "text_column": "text"} if job == "transcribe" else {}
    return Inferred(job, f"{len(rows):,} files, each with its text beside it", data, rows=rows)


def _splits(folder: Path, tables: list[Path], task: str | None, text: str | None, target: str | None) -> Inferred:
    """One table, or tables for training, validation and testing by their names."""
    train = [path for path in tables if "train" in path.name.lower()]
    if len(tables) > 1 and len(train) != 1:
        shown = ", ".join(path.name for path in tables[:5])
        raise UserError(f"{folder} has {len(tables)} tables ({shown}); give one of them, or name one train")
    first = train[0] if train else tables[0]
    inferred = infer_file(first, task, text, target)
    if inferred.task in ("forecast", "caption"):
        return inferred
    for split, words in HELD_OUT.items():
        other = [path for path in tables if path != first and any(word in path.name.lower() for word in words)]
        if len(other) == 1:
            inferred.data[split] = {"source": str(other[0])} if inferred.task == "translate" else str(other[0])
    return inferred


def _by_class(folder: Path, texts: list[Path]) -> Inferred:
    lines = [line for path in texts for line in list(read_lines(path))[:200] if line.strip()]
    if not lines:
        raise UserError(f"{folder} holds empty text files only; give files with a text a line")
    words = sum(len(line.split()) for line in lines) / len(lines)
    tables = {"tokenizer": {"kind": "character"}} if words < 1.5 else {}
    data = {"train": str(folder), "format": "folder"}
    return Inferred("classify", f"a text file for each of {len(texts)} classes", data, tables)
