"""The output of `harken translate`: the formats of its lines, and files that a killed job can continue.

Lines are appended to the file as they are ready. Beside it, `.NAME.resume.json` says what they were made of:

    {"harken": "1.0.0", "model": "8c31...", "options": {"beam": 5, ...},
     "input": {"bytes": 52341, "sha256": "..."}, "complete": false}

`--resume` compares it with the command, cuts off what a kill left of the last line, and counts the lines that are
there. The digest of the input covers its size and its first and last mebibyte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from harken.errors import UserError
from harken.files import atomic_write, expand_user, is_stream, output_target, read_limited

if TYPE_CHECKING:
    from harken.tasks.translate.translation import Translation
    from harken.tasks.translate.translator import Translator

BLOCK = 2**20


@dataclass(frozen=True)
class Format:
    """The form in which the translations of a line are written."""

    as_json: bool = False
    scores: bool = False
    nbest: int = 1

    def text(self, index: int, source: str, translations: Sequence[Translation]) -> str:
        """The translations of one line, best first, with the line feed at the end."""
        if self.as_json:
            entries = [
                {
                    "text": translation.text,
                    "score": round(translation.score, 4),
                    "alignment": translation.alignment() if translation.is_aligned else None,
                    **({} if translation.is_spaced else _words_of(translation)),
                }
                for translation in translations
            ]
            unknown = translations[0].unknown_words if translations else []
            entry = {"source": source, "unknown": unknown, "translations": entries}
            return json.dumps(entry, ensure_ascii=False) + "\n"
        if self.nbest > 1:
            lines = [f"{index} ||| {one_line(best.text)} ||| {best.score:.4f}\n" for best in translations]
            return "".join(lines) or f"{index} |||  ||| 0.0000\n"
        text, score = (one_line(translations[0].text), translations[0].score) if translations else ("", 0.0)
        return f"{text}\t{score:.4f}\n" if self.scores else f"{text}\n"


def _words_of(translation: Translation) -> dict[str, list[str]]:
    return {"source_words": translation.source_words, "target_words": translation.target_words}


def one_line(text: str) -> str:
    """The text without line breaks, so that line N of the output belongs to line N of the input."""
    return " ".join(text.split("\n"))


def pharaoh(translation: Translation, model: Path) -> str:
    """`0-0 1-2`: source word, target word.

    Raises:
        UserError: the model has no attention to read links from.
    """
    if not translation.is_aligned:
        raise UserError(f"{model} has no attention to read alignments from; leave --alignments out")
    return " ".join(f"{i}-{j}" for i, j in translation.alignment())


class OutputFile:
    """The lines of one job; `done` is how many inputs have their output in the file already."""

    def __init__(
        self, path: Path, record: dict[str, Any], resume: bool, grouped: bool, report: Callable[[str], None] = print
    ) -> None:
        """
        Args:
            record: what the lines are made of; values of JSON.
            resume: continue a file that is there, and begin one that is not.
            grouped: lines begin with the number of their input and ` |||`, and an input may have several.
            report: called with how to continue after Ctrl-C.

        Raises:
            UserError: the file belongs to another job, or is unfinished and `resume` was not asked for.
        """
        self.path, self._report = output_target(path), report
        if is_stream(self.path):
            raise UserError(f"--out {path} is a device or a pipe; leave --out out and redirect stdout to it")
        self.sidecar = self.path.with_name(f".{self.path.name}.resume.json")
        self.parts = self.path.with_name(f".{self.path.name}.parts")  # of `--engine ray`
        self.record = {**record, "complete": False}
        self.done, self.is_complete = 0, False
        known = self._read_sidecar()
        has_lines = self.path.exists() and self.path.stat().st_size > 0
        self._resuming = resume and (has_lines or self.parts.is_dir())
        if self._resuming:
            self.is_complete = self._compared(known)["complete"]
            if has_lines:
                whole = not grouped or self.is_complete
                self.done, end = _count_lines(self.path) if whole else _count_groups(self.path)
                os.truncate(self.path, end)
        elif (has_lines or self.parts.is_dir()) and known is not None and not known["complete"]:
            raise UserError(f"{path} is an unfinished output; continue it with --resume {path}, or remove it")
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab" if self.done else "wb", buffering=0)
        except OSError as problem:
            raise UserError(f"{self.path} cannot be written ({problem.strerror}); choose another place") from problem
        if not self._resuming:
            shutil.rmtree(self.parts, ignore_errors=True)
        atomic_write(self.sidecar, json.dumps(self.record, indent=1) + "\n")
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        assert self._file is not None
        with self._file as file:
            os.fsync(file.fileno())
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._report(f"Continue with --resume {self.path}")
        if kind is None:
            atomic_write(self.sidecar, json.dumps({**self.record, "complete": True}, indent=1) + "\n")
            shutil.rmtree(self.parts, ignore_errors=True)

    def write(self, text: str) -> None:
        """Append the lines of one input."""
        assert self._file is not None
        data = memoryview(text.encode())
        while data:
            data = data[self._file.write(data) or 0 :]

    def _read_sidecar(self) -> dict[str, Any] | None:
        with suppress(OSError, ValueError):
            record = json.loads(read_limited(self.sidecar, BLOCK))
            if isinstance(record, dict) and isinstance(record.get("complete"), bool):
                return record
        return None

    def _compared(self, known: dict[str, Any] | None) -> dict[str, Any]:
        """The record of the file, which is that of this job.

        Raises:
            UserError: it is not, or there is none.
        """
        if known is None:
            raise UserError(
                f"{self.path} has no {self.sidecar.name} beside it, so it is not known what it was made of; "
                "remove it to begin again, or choose another output"
            )
        named = {"harken": "another version of harken", "model": "another model", "input": "another input"}
        for key in (*named, "options"):
            mine, theirs = self.record[key], known.get(key)
            if mine == theirs:
                continue
            what = named.get(key, "other options")
            if key == "options" and isinstance(theirs, dict):
                names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
                what = f"other options ({', '.join(names)})"
            raise UserError(
                f"{self.path} was begun with {what}; repeat the command that began it, or choose another output"
            )
        return known


def translate_to_file(
    translator: Translator,
    lines: Iterable[str],
    output: OutputFile,
    text: Callable[[int, str, Sequence[Translation]], str],
    count: int = 1,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> None:
    """Append one line for each input to an output, which may have some already.

    Args:
        text: the line of an input: its number, itself and its `count` translations, best first; as `Format.text`.
        progress: called with the number of inputs that are done.
        options: those of `Translator.translate_lines`.
    """
    if output.is_complete:
        return
    pending = deque[str]()

    def read() -> Iterator[str]:
        for number, line in enumerate(lines):
            if number >= output.done:
                pending.append(line)
            yield line

    translated = translator.translate_lines(read(), count, skip=output.done, **options)
    with output:
        translator.prepare()  # else a continued job may use another decoder than the one that began it
        for index, translations in enumerate(translated, start=output.done):
            if progress is not None:
                progress(index)
            output.write(text(index, pending.popleft(), translations))


def _count_lines(path: Path) -> tuple[int, int]:
    """Complete lines of a file, and where the last of them ends."""
    count = end = offset = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            count += block.count(b"\n")
            if (last := block.rfind(b"\n")) >= 0:
                end = offset + last + 1
            offset += len(block)
    return count, end


def _count_groups(path: Path) -> tuple[int, int]:
    """Inputs before the last one whose lines are there, as the last may lack some; and where they end."""
    group, start, offset = 0, 0, 0
    with open(path, "rb") as file:
        for line in file:
            number = line.split(b" ", 1)[0]
            if line.endswith(b"\n") and number.isdigit() and int(number) != group:
                group, start = int(number), offset
            offset += len(line)
    return group, start


def digest_of_input(file: Path) -> dict[str, Any]:
    """The size of a file, and a SHA-256 of its beginning and end.

    Raises:
        UserError: it is a pipe or a terminal, which cannot be read twice.
    """
    file = expand_user(file)
    if not file.is_file():
        raise UserError(f"{file} is no regular file, and --resume reads its input again from the start; give a file")
    size = file.stat().st_size
    with open(file, "rb") as stream:
        digest = hashlib.sha256(stream.read(BLOCK))
        stream.seek(max(0, size - BLOCK))
        digest.update(stream.read(BLOCK))
    return {"bytes": size, "sha256": digest.hexdigest()}


def digest_of_models(folders: Sequence[Path]) -> str:
    """A SHA-256 of weights, recipes and tokenizers."""
    from harken.training.folder import MODEL

    digest = hashlib.sha256()
    for folder in folders:
        files = [MODEL, "recipe.toml", *sorted(p.name for kind in ("json", "model") for p in folder.glob(f"*.{kind}"))]
        for name in files:
            if name == "data.json" or not (folder / name).is_file():
                continue
            digest.update(f"{name}\n".encode())
            with open(folder / name, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def record_of(
    translator: Translator, folders: Sequence[Path], file: Path | None, options: dict[str, Any], resume: bool
) -> dict[str, Any]:
    """Record the model, the options and the input that an output is made of.

    Raises:
        UserError: an output is to be resumed, and the input is not a file.
    """
    import harken

    if resume and file is None:
        raise UserError("--resume reads its input again from the start, which stdin does not allow; name a file")
    for name in ("glossary", "language_model", "rerank"):
        if options.get(name) and (path := Path(options[name])).exists():
            options[f"{name} sha256"] = digest_of_models([path]) if path.is_dir() else digest_of_input(path)["sha256"]
    return {
        "harken": harken.__version__,
        "model": digest_of_models(folders),
        "options": {**options, "device": translator.device.type},
        "input": None if file is None else digest_of_input(file),
    }
