"""`harken embed neighbors`, `analogy`, `evaluate`, `convert`, `plot`: what there is to do with word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, examples, print_json, print_table
from harken.cli.messages import logger
from harken.cli.progress import counting
from harken.tasks.interface import MAX_COUNT

if TYPE_CHECKING:
    from harken.embeddings.evaluation import Result

Vectors = Annotated[Path, typer.Argument(help="Folder of `harken embed train`, or a file of word2vec or GloVe.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=MAX_COUNT, help="How many words to show.")]


@examples("harken embed neighbors runs/words river", "harken embed neighbors vectors.bin river lake --json")
def neighbors(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words to look around.")],
    count: Count = 10,
    as_json: AsJson = False,
) -> None:
    """The words closest to a word, by the cosine of their vectors."""
    from harken.embeddings.vectors import WordVectors

    loaded = WordVectors.load(vectors)
    neighbours = {word: loaded.neighbors(word, count) for word in words}
    if as_json:
        given = {word: [{"word": name, "cosine": score} for name, score in near] for word, near in neighbours.items()}
        print_json(given)
        return
    for number, (word, near) in enumerate(neighbours.items()):
        if len(neighbours) > 1:
            print(("\n" if number else "") + word)
        print_table(("word", "cosine"), [(name, f"{score:.4f}") for name, score in near])


@examples("harken embed analogy runs/words man king woman")
def analogy(
    vectors: Vectors,
    a: Annotated[str, typer.Argument(help="a is to b ...")],
    b: Annotated[str, typer.Argument(help="... this, as ...")],
    c: Annotated[str, typer.Argument(help="... c is to what?")],
    count: Count = 5,
    as_json: AsJson = False,
) -> None:
    """a is to b as c is to what? The words closest to b - a + c."""
    from harken.embeddings.vectors import WordVectors

    neighbours = WordVectors.load(vectors).analogy(a, b, c, count)
    if as_json:
        print_json([{"word": name, "cosine": score} for name, score in neighbours])
        return
    print_table(("word", "cosine"), [(name, f"{score:.4f}") for name, score in neighbours])


@examples(
    "harken embed evaluate runs/words EN-WS-353-ALL.txt questions-words.txt.gz",
    "harken embed evaluate runs/words EN-WS-353-ALL.txt --one-hot      (what knowing nothing scores)",
)
def evaluate(
    vectors: Vectors,
    tests: Annotated[
        list[Path],
        typer.Argument(metavar="TEST...", help="Similarity sets (two words and a score a line) or analogy questions."),
    ],
    groups: Annotated[bool, typer.Option("--groups", help="Also every group of the analogies.")] = False,
    baseline: Annotated[bool, typer.Option("--one-hot", help="One-hot vectors of the same words instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do cosines rank pairs of words as people do, and do they solve analogies? With how much of a test was known."""
    from dataclasses import asdict

    from harken.embeddings.evaluation import evaluate_file
    from harken.embeddings.vectors import OneHot, WordVectors

    loaded = WordVectors.load(vectors)
    if baseline:
        loaded = OneHot(loaded.words, loaded.vocabulary.counts)
    results = []
    for test in tests:
        scores = evaluate_file(loaded, test)
        results += scores if groups else scores[-1:]
    if as_json:
        print_json([asdict(result) for result in results])
        return
    rows = [
        (
            result.name,
            result.measure,
            _score(result),
            f"{result.covered:,} of {result.total:,} ({result.covered / max(result.total, 1):.0%})",
        )
        for result in results
    ]
    print_table(("test", "measure", "score", "known"), rows)


def _score(result: Result) -> str:
    if result.score is not None:
        return f"{result.score:.4f}"
    return "all alike" if result.covered > 1 else "too few known"


@examples(
    "harken embed convert runs/words words.bin --format word2vec-binary",
    "harken embed convert glove.6B.100d.txt runs/glove6b      (our folder: opens at once)",
)
def convert(
    vectors: Vectors,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="File or folder to write.")],
    form: Annotated[
        str, typer.Option("--format", help="word2vec-text, word2vec-binary, glove, or harken (a folder).")
    ] = "harken",
) -> None:
    """Write vectors in another format; what they are now is seen from the file."""
    from harken.embeddings.formats import FORMATS, write_vectors
    from harken.embeddings.vectors import WordVectors
    from harken.errors import UserError

    if form != "harken" and form not in FORMATS:
        raise UserError(f'--format is "{form}", which is unknown: use {", ".join(FORMATS)} or harken.')
    loaded = WordVectors.load(vectors)
    if form == "harken":
        loaded.save(target)
    else:
        write_vectors(loaded, target, form)
    logger.info(f"Wrote {len(loaded):,} words of {loaded.width} dimensions to {target}")


@examples(
    "harken embed plot runs/words --out words.html",
    "harken embed plot runs/words --around river --around music --words 300 --out two.html",
)
def plot(
    vectors: Vectors,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("words.html"),
    words: Annotated[int, typer.Option(min=2, max=MAX_COUNT, help="Draw this many, the most frequent.")] = 1000,
    around: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Draw this word and those near it; may be given often.")
    ] = None,
    method: Annotated[str, typer.Option(help="tsne, pca or both.")] = "both",
    clusters: Annotated[int, typer.Option(min=1, max=1000, help="Groups to colour.")] = 12,
    perplexity: Annotated[
        float, typer.Option(min=1, max=MAX_COUNT, help="Neighbours t-SNE keeps near each word.")
    ] = 30.0,
) -> None:
    """Draw words on a plane (t-SNE, PCA) as an offline page: search, neighbours, groups in colour."""
    from harken.embeddings.vectors import WordVectors
    from harken.embeddings.word_map import METHODS, WordMap
    from harken.errors import UserError, require_extra
    from harken.files import atomic_write

    if not out.parent.is_dir():
        raise UserError(f"{out} cannot be written: the folder {out.parent} does not exist.")
    methods = METHODS if method == "both" else (method,)
    if "tsne" in methods:
        require_extra("sklearn", "embeddings", "t-SNE")
    loaded = WordVectors.load(vectors)
    shown: list[str] | int = words
    if around:
        share = max(words // len(around), 2)
        shown = [name for word in around for name in [word, *(near for near, _ in loaded.neighbors(word, share - 1))]]
    with counting("Drawing"):
        picture = WordMap.of(
            loaded, shown, methods=methods, clusters=clusters, perplexity=perplexity, title=f"Words of {vectors.name}"
        )
    atomic_write(out, picture.page())
    logger.info(f"Wrote {out}: {len(picture.words):,} words. Open it in a browser; it needs no network.")
