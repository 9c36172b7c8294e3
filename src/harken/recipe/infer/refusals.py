"""Files that hold no examples as they are: each is refused with the command that makes some of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NoReturn

from harken.data.io.files import ending
from harken.errors import UserError
from harken.recipe.infer.questions import run_name

# Ending -> what the file is, and a command whose {0} is the file and {1} a name for what it makes.
OTHER_FORMATS = {
    (".srt", ".vtt", ".sub", ".ass"): (
        "a subtitle file", "grep -vE '^[0-9]+\\s*$|-->|^WEBVTT' {0} > {1}.txt && harken train {1}.txt"
    ),
    (".docx", ".odt", ".epub", ".rtf", ".html", ".htm", ".xhtml", ".tex"): (
        "a document", "pandoc --to plain --output {1}.txt {0} && harken train {1}.txt"
    ),
    (".doc", ".ppt", ".pptx"): (
        "a document", "soffice --headless --convert-to txt {0} && harken train {1}.txt"
    ),
    (".xls", ".ods"): ("a spreadsheet", "soffice --headless --convert-to csv {0} && harken train {1}.csv"),
    (".pdf",): ("a PDF", "pdftotext {0} {1}.txt && harken train {1}.txt"),
    (".ipynb",): ("a notebook", "jupyter nbconvert --to markdown --output {1} {0} && harken train {1}.md"),
    (".sqlite", ".sqlite3", ".db"): (
        "a database", "sqlite3 -header -csv {0} 'select * from NAME' > {1}.csv && harken train {1}.csv"
    ),
    (".tar", ".tgz", ".tbz", ".txz"): ("an archive", "mkdir {1} && tar -xf {0} -C {1} && harken train {1}"),
    (".7z", ".rar"): ("an archive", "7z x {0} -o{1} && harken train {1}"),
}  # fmt: skip
BINARY = (".safetensors", ".pth", ".ckpt", ".onnx", ".pkl", ".pickle", ".joblib", ".bin")


def refuse_other_formats(path: Path) -> None:
    """Raise an error on files of other programs, and on those that spreadsheets keep beside open files.

    Raises:
        UserError: what the file is, and the command to run.
    """
    for start, program in (("~$", "Excel or Word"), (".~lock.", "LibreOffice")):
        if path.name.startswith(start):
            other = path.name.removeprefix(start).removesuffix("#")
            raise UserError(f"{path} is a lock file of {program}; close the program, and give {path.with_name(other)}")
    endings = {ending(path), path.suffix.lower()}
    if endings & {*BINARY}:
        raise UserError(
            f"{path} is a stored model or object, not data; give a table or text, or use a model folder with harken "
            "predict DIR"
        )
    for known, (what, command) in OTHER_FORMATS.items():
        if endings & {*known}:
            refuse(path, what, command)


def refuse(path: Path, what: str, command: str) -> NoReturn:
    """Raise an error on a file with a command that makes data of it, as in `OTHER_FORMATS`."""
    name = run_name(path)
    line = f"{command.format(shlex.quote(str(path)), name)} --out runs/{name}"
    raise UserError(f"{path} is {what}, which holds no examples as it is; run: {line}")
