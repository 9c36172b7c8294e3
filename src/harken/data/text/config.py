"""The `[data]` and `[tokenizer]` tables of a recipe.

>>> DataConfig(source="train.en", target="train.fr").valid_size is None
True
>>> list(DataConfig(dir="multi30k", pair="en-de", test={"source": "a.en", "target": "a.de"}).test)
['test']
>>> DataConfig(train="pairs.tsv").source, DataConfig(train={"source": "a.en", "target": "a.fr"}).target
('pairs.tsv', 'a.fr')
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harken.data.io.files import MAX_LINE_BYTES
from harken.data.io.keys import CorpusName, PreparedDir, Seed, Share
from harken.data.text.locations import BUILT_IN
from harken.data.text.placeholders import PATTERNS
from harken.paths import Files, PathStr

Column = Annotated[int, Field(ge=0)] | str


class SplitFiles(BaseModel):
    """The files of one split, read with the format and columns of the `[data]` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Files = Field(description="File or list of files with the source side (tables: with both sides).")
    target: Files | None = Field(default=None, description="File or list of files with the target side, line by line.")


def _name_single_test(value: Any) -> Any:
    """One table of files is a test called `test`; a table of tables names its tests."""
    if isinstance(value, SplitFiles):
        return {"test": value}
    if isinstance(value, str | list):
        return {"test": {"source": value}}
    if isinstance(value, dict) and not (value and all(isinstance(item, (dict, SplitFiles)) for item in value.values())):
        return {"test": value}
    return value


def _files_alone(value: Any) -> Any:
    """`valid = "dev.tsv"` is a table that says nothing else."""
    return {"source": value} if isinstance(value, str | list) else value


class DataConfig(BaseModel):
    """The source of the sentence pairs: a corpus that ships, files, or a folder; exactly one of the three.

    `train`, as in the other jobs, may be given in the place of `source` and `target`: a file with both sides, or a
    table of both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _train_is_two_sides(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "train" not in values:
            return values
        rest = {key: value for key, value in values.items() if key != "train"}
        if values["train"] in (None, "none"):
            return rest
        for key in ("source", "target"):
            if values.get(key) is not None:
                raise ValueError(f"data.train and data.{key} are both given; keep one of them")
        files = _files_alone(values["train"])
        if not isinstance(files, dict) or not files.keys() <= {"source", "target"}:
            raise ValueError('data.train is neither a file nor a table like {source = "a.en", target = "a.fr"}')
        return {**rest, **files}

    corpus: str | None = Field(default=None, description=f"A corpus that ships with harken: {', '.join(BUILT_IN)}.")
    size: Annotated[int, Field(gt=0)] | None = Field(default=None, description="Training pairs of that corpus.")
    direction: str = Field(default="en-fr", description='Direction of phrasebook and tatoeba: "en-fr" or "fr-en".')

    source: Files | None = Field(default=None, description="File or list of files with the source side (tables: both).")
    target: Files | None = Field(default=None, description="File or list of files with the target side, line by line.")
    format: Literal["auto", "text", "table", "tsv", "jsonl"] = Field(
        default="auto",
        description=(
            "text: two aligned files; table: CSV, TSV, JSON, JSONL, Parquet or Excel with both sides; tsv, jsonl: the "
            "same whatever the name says; auto: by the file name, or table without target."
        ),
    )
    source_column: Column | None = Field(
        default=None,
        description='Table: name of the column, or its number from 0 (default 0). JSON: key (default "source").',
    )
    target_column: Column | None = Field(
        default=None,
        description='Table: name of the column, or its number from 0 (default 1). JSON: key (default "target").',
    )
    header: bool | None = Field(
        default=None, description="Table: whether the first line names the columns; default: as its content shows."
    )
    quotes: bool | None = Field(
        default=None,
        description="Table: whether quotes enclose cells rather than being letters; default: as its content shows.",
    )
    encoding: str = Field(
        default="utf-8", description="Encoding of the files; UTF-16 is recognised where utf-8 is given."
    )
    source_heads: bool = Field(
        default=False,
        description="Whether source words carry the index of their head in a dependency tree: the|2 cat|3 sleeps|0.",
    )
    valid: Annotated[SplitFiles | None, BeforeValidator(_files_alone)] = Field(
        default=None, description="Files to validate on; default: held out from training."
    )
    test: Annotated[dict[str, SplitFiles] | None, BeforeValidator(_name_single_test)] = Field(
        default=None, description="Files to test on: one table {source, target}, or a table of such tables by name."
    )
    valid_size: Share | None = Field(
        default=None,
        description="Pairs (or fraction) held out for validation; default: 1000 or 5%, the smaller.",
    )
    test_size: Share = Field(
        default=0, description="Pairs (or fraction) held out for testing if no test files are given."
    )

    dir: PathStr | None = Field(
        default=None, description="Folder with train.LANG, val.LANG and test*.LANG, plain, .gz or .xz."
    )
    pair: str | None = Field(default=None, description='Languages to read from the folder, source first: "en-de".')

    name: CorpusName = None
    source_language: str | None = Field(default=None, description='Language code of the source side, such as "en".')
    target_language: str | None = Field(default=None, description='Language code of the target side, such as "fr".')
    lowercase: bool = Field(default=False, description="Whether to lower-case both sides of every split.")
    max_words: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="Training pairs with more words on a side are skipped and counted."
    )
    max_characters: Annotated[int, Field(gt=0)] | None = Field(
        default=2000, description="Training pairs with more characters on a side are skipped and counted."
    )
    markup: tuple[str, ...] | Literal["auto"] = Field(
        default="auto",
        description=(
            "Kinds of markup that a translation copies, each span of which the model reads as one symbol: "
            f"names of reStructuredText roles such as :func:, and {', '.join([*PATTERNS][1:])}; one with a text "
            "and an address has <> at its end. auto: the kinds that most training pairs copy, of "
            "subwords; []: none."
        ),
    )
    max_line_bytes: Annotated[int, Field(gt=0)] = Field(
        default=MAX_LINE_BYTES, description="A longer line in any file ends the run with an error."
    )
    prepared: PreparedDir = None
    skip_empty: bool = Field(default=True, description="Whether to skip (and count) pairs with an empty side.")
    seed: Seed = 1


class TokenizerConfig(BaseModel):
    """The tokenizers of both sides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["bpe", "unigram", "word", "character"] = Field(
        default="bpe",
        description="Subwords by byte-pair encoding or a unigram model (sentencepiece), words, or characters.",
    )
    size: int = Field(default=8000, gt=4, description="Vocabulary size, including the four special ids.")
    joint: bool = Field(default=True, description="Whether source and target share one vocabulary.")
    source_prefix: str = Field(default="", description="A token of the vocabulary before every source.")
    source_suffix: str = Field(default="", description="A token of the vocabulary after every source.")
    target_prefix: str = Field(
        default="", description="A token of the vocabulary that begins every target; a search is forced to write it."
    )
    languages: dict[str, str] = Field(
        default_factory=dict,
        description=(
            'Multilingual models: the token of each language, as {en = "__en__"}; those of data.source_language and '
            "data.target_language are the prefixes."
        ),
    )
    min_count: int = Field(default=1, ge=1, description="Words and characters with a lower training count are unknown.")
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] | Literal["auto"] = Field(
        default="auto",
        description=(
            "Subwords: share of the text's characters that the vocabulary covers. auto: all of them; of Chinese, "
            "Japanese and Korean 0.9995 where the others are bytes."
        ),
    )
    byte_fallback: bool | Literal["auto"] = Field(
        default="auto",
        description=(
            "Subwords: encode unknown characters as bytes (256 ids of the vocabulary). auto: where the text has Hangul "
            "or a script without spaces, and size is 2000 or more."
        ),
    )
    normalization: Literal["identity", "nfkc", "nmt_nfkc"] = Field(
        default="identity",
        description=(
            "Subwords: Unicode normalisation; identity keeps every character as it is, nfkc composes accents and reads "
            "full-width forms as their usual ones."
        ),
    )
    max_lines: int = Field(default=1_000_000, gt=0, description="Subwords: number of lines sampled to train the model.")
