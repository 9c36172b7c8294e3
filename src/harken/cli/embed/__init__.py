"""`harken embed`: word vectors trained, looked at, tested, drawn and converted; one function for each of its verbs."""

from __future__ import annotations

from collections.abc import Callable

import typer

from harken.cli.embed.context import context
from harken.cli.embed.train import train
from harken.cli.embed.vectors import analogy, convert, evaluate, neighbors, plot
from harken.cli.exits import guarded

EXAMPLES: dict[Callable[..., None], str] = {
    train: "harken embed train text.txt --out runs/words\n\n"
    "harken embed train a.txt.gz b.txt.xz --out runs/cbow --method cbow --width 200 --epochs 10 --phrases 1\n\n"
    "harken embed train text.txt --out runs/pieces --ngrams 3-6      (vectors for unseen words, as fastText)\n\n"
    "harken embed train text.txt --out runs/glove --method glove",
    neighbors: "harken embed neighbors runs/words river\n\nharken embed neighbors vectors.bin river lake --json",
    analogy: "harken embed analogy runs/words man king woman",
    context: 'harken embed context runs/elmo "give me the stick" "we stick to the plan" --word stick\n\n'
    'harken embed context runs/elmo "they sat on the river bank" --word bank --among text.txt --json',
    evaluate: "harken embed evaluate runs/words EN-WS-353-ALL.txt questions-words.txt.gz\n\n"
    "harken embed evaluate runs/words EN-WS-353-ALL.txt --one-hot      (what knowing nothing scores)",
    plot: "harken embed plot runs/words --out words.html\n\n"
    "harken embed plot runs/words --around river --around music --words 300 --out two.html",
    convert: "harken embed convert runs/words words.bin --format word2vec-binary\n\n"
    "harken embed convert glove.6B.100d.txt runs/glove6b      (our folder: opens at once)",
}

embed = typer.Typer(
    no_args_is_help=True,
    help="Word vectors: train, look, test, draw, convert.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: harken embed train TEXT --out runs/words, then: harken embed neighbors runs/words WORD",
)
for verb, examples in EXAMPLES.items():
    embed.command(epilog=f"Examples:\n\n{examples}")(guarded(verb))
