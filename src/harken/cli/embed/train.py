"""`harken embed train`: text files in, a folder of word vectors out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.common import examples, folder_option, format_seconds
from harken.cli.messages import logger
from harken.cli.progress import counting, measuring
from harken.tasks.interface import MAX_SEED

if TYPE_CHECKING:
    from harken.embeddings.training import Progress
    from harken.embeddings.word2vec.settings import Subwords

OF_WORD2VEC = {"negatives": 5, "tree": False, "sample": 1e-3, "ngrams": None, "device": "auto"}


@examples(
    "harken embed train text.txt --out runs/words",
    "harken embed train a.txt.gz b.txt.xz --out runs/cbow --method cbow --width 200 --epochs 10 --phrases 1",
    "harken embed train text.txt --out runs/pieces --ngrams 3-6      (vectors for unseen words, as fastText)",
    "harken embed train text.txt --out runs/glove --method glove",
)
def train(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Text, a sentence a line; also .gz, .xz.")],
    out: Annotated[Path, folder_option("Folder for the vectors.")],
    method: Annotated[str, typer.Option(help="skipgram, cbow or glove.")] = "skipgram",
    width: Annotated[int, typer.Option(max=131_072, help="Dimensions.")] = 100,
    window: Annotated[
        int | None, typer.Option(max=10_000, help="Neighbours on each side. Default: 5; glove 10.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(max=10**9, help="Times through the text. Default: 5; glove 15.")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate. Default: 0.025; cbow 0.06, glove 0.05.")] = None,
    negatives: Annotated[int, typer.Option(max=10_000, help="Wrong answers drawn for a window.")] = 5,
    tree: Annotated[bool, typer.Option("--tree", help="Hierarchical softmax in place of wrong answers.")] = False,
    sample: Annotated[float, typer.Option(help="Thin out words above this share of the text; 0: none.")] = 1e-3,
    ngrams: Annotated[
        str | None, typer.Option(metavar="N-M", help="Learn n-grams of N to M characters too, as fastText: 3-6.")
    ] = None,
    buckets: Annotated[int, typer.Option(max=10**9, help="Vectors that the n-grams share.")] = 200_000,
    min_count: Annotated[int, typer.Option(max=10**12, help="Leave out words that occur less often.")] = 5,
    max_words: Annotated[
        int | None, typer.Option(min=2, max=10**9, help="Keep only this many, the most frequent.")
    ] = None,
    phrases: Annotated[int, typer.Option(min=0, max=4, help="Passes that join words: new york -> new_york.")] = 0,
    tokens: Annotated[str, typer.Option(help="words: letters and digits; spaces: cut at blanks alone.")] = "words",
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Do not turn to lower case.")] = False,
    threads: Annotated[
        int | None, typer.Option(max=4096, help="Default: all cores. One thread gives the same vectors every time.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto: a GPU where a text is large.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Another seed, other vectors.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace vectors that are in the folder.")] = False,
) -> None:
    """Train word vectors on text: word2vec (skip-gram or CBOW), with n-grams of characters, or GloVe."""
    from harken.embeddings.corpus import read_corpus
    from harken.errors import UserError

    if (out / "card.json").exists() and not force:
        raise UserError(f"{out} holds word vectors already: give another --out, or --force to replace them.")
    mine = {"negatives": negatives, "tree": tree, "sample": sample, "ngrams": ngrams, "device": device}
    settings, trainer = _settings(
        method, {"width": width, "window": window, "epochs": epochs, "rate": rate, "threads": threads, "seed": seed},
        mine, _subwords(ngrams, buckets),
    )  # fmt: skip
    with counting("Reading") as progress:
        corpus = read_corpus(
            files,
            tokens=tokens,
            lower=not keep_case,
            min_count=min_count,
            max_vocabulary=max_words,
            phrases=phrases,
            progress=progress,
        )
    logger.info(
        f"{corpus.words_read:,} words read; {len(corpus.vocabulary):,} different ones kept, {corpus.words:,} in all"
    )
    with _shown(settings.epochs, "pairs" if method == "glove" else "words") as show:
        learnt = trainer(corpus, settings, show)
    vectors = learnt.vectors(corpus, settings)
    vectors.card |= {
        "files": [str(file) for file in files],
        "corpus": {"words_read": corpus.words_read, "words": corpus.words, "min_count": min_count, "phrases": phrases},
        "tokens": {"cut": tokens, "lower": not keep_case},
    }
    vectors.save(out)
    done = learnt.progress
    losses = ", ".join(f"{loss:.4f}" for loss in done.losses)
    logger.info(f"Mean loss of each epoch: {losses}")
    logger.info(
        f"{format_seconds(done.seconds)}, {done.words_per_second:,.0f} {'pairs' if method == 'glove' else 'words'}/s"
    )
    logger.info(f"Wrote {out}. Look: harken embed neighbors {out} WORD")
    if done.stopped:
        raise KeyboardInterrupt(f"what was learnt so far ({done.done:.0%}) is in {out}")


def _settings(
    method: str, common: dict[str, Any], mine: dict[str, Any], subwords: Subwords | None
) -> tuple[Any, Callable[..., Any]]:
    from harken.embeddings.glove.training import GloveSettings, train_glove
    from harken.embeddings.word2vec.settings import Settings
    from harken.embeddings.word2vec.training import train_word2vec
    from harken.errors import UserError

    given = {name: value for name, value in common.items() if value is not None}
    if method == "glove":
        odd = [name for name, value in mine.items() if value != OF_WORD2VEC[name]]
        if odd:
            raise UserError(f"--{odd[0]} is for skipgram and cbow: leave it out with --method glove.")
        return GloveSettings(**given), train_glove
    if method not in ("skipgram", "cbow"):
        raise UserError(f'--method is "{method}", which is unknown: use skipgram, cbow or glove.')
    word2vec = {"negatives": mine["negatives"], "hierarchical": mine["tree"], "sample": mine["sample"]}
    word2vec["device"] = mine["device"]
    return Settings(method=method, subwords=subwords, **word2vec, **given), train_word2vec


def _subwords(ngrams: str | None, buckets: int) -> Subwords | None:
    from harken.embeddings.word2vec.settings import Subwords
    from harken.errors import UserError

    if ngrams is None:
        return None
    lengths = re.fullmatch(r"(\d+)-(\d+)", ngrams)
    if not lengths:
        raise UserError(f'--ngrams is "{ngrams}": give the shortest and the longest, such as 3-6.')
    return Subwords(int(lengths[1]), int(lengths[2]), buckets)


@contextmanager
def _shown(epochs: int, unit: str) -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr where a person looks, a line now and then where not."""

    def numbers(progress: Progress) -> str:
        losses = progress.losses
        loss = f"loss {losses[-1]:.4f}" if losses else ""
        left = "" if progress.seconds_left is None else f"{format_seconds(progress.seconds_left)} left"
        pace = f"{progress.words_per_second:,.0f} {unit}/s"
        return f"epoch {min(len(losses) or 1, epochs)}/{epochs}  {loss}  {pace}  {left}"

    with measuring("Training") as update:
        yield lambda progress: update(progress.done, numbers(progress))
