"""How translators are used: `harken translate` and `POST /v1/translate`, which are written by hand, and what else."""

from __future__ import annotations

from pathlib import Path

from harken.tasks.interface import Argument, Examples, Interface

FILE = Argument(
    "file",
    Path | None,
    "Text, one sentence a line, TSV or JSONL (.gz, .xz too); or stdin. More models may come before.",
)
INTERFACE = Interface(
    verb="translate",
    help="Translate text: one line out for every line in. A closed pipe or the end of the input ends it.",
    input=Examples(FILE, example="the black cat sleeps"),
    examples=(
        "echo 'the black cat sleeps' | harken translate runs/demo",
        "harken translate runs/demo text.en --alignments links.txt > text.fr",
        "harken translate runs/demo text.en --nbest 5      (lines of: index ||| text ||| score)",
        "harken translate runs/demo million.en --resume million.fr      (continues after a kill)",
        "harken translate runs/demo runs/attention text.en      (an ensemble)",
        "harken translate runs/demo text.en --glossary terms.tsv --no-repeat-ngram 3",
    ),
    unit="lines",
    operations=("attention", "beam", "alternatives", "score", "gates"),
    is_streamed=True,
)
