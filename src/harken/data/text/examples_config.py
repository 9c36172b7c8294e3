"""The `[data]` table of a recipe for classification: where labelled texts or signals come from.

>>> data = ExamplesConfig(train="train.tsv", test={"files": "test.csv", "label_column": "class"})
>>> data.split("test").label_column, data.split("test").text_column
('class', 'text')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from harken.data.io.keys import CorpusName, DataTable, PreparedDir, Seed, Share
from harken.paths import BaseDir, FilesInDir

Format = Literal["auto", "table", "prefix", "folder", "trees", "ts", "arrays", "steps", "rows", "ucr", "arff"]
Positive = Annotated[int, Field(gt=0)]
SIGNALS = ("ts", "arrays", "steps", "rows", "ucr", "arff")


class SplitExamples(DataTable):
    """The files of one split; a key that is not given is inherited from `[data]`."""

    older: ClassVar[Mapping[str, str]] = {"text": "text_column", "label": "label_column"}

    files: FilesInDir = Field(description="file, folder, pattern with * or list of them, relative to data.dir")
    format: Format | None = Field(None, description="overrides data.format")
    text_column: str | list[str] | None = Field(None, description="overrides data.text_column")
    label_column: str | None = Field(None, description="overrides data.label_column")
    header: bool | None = Field(None, description="overrides data.header")
    quotes: bool | None = Field(None, description="overrides data.quotes")
    names: dict[str, str] | None = Field(None, description="overrides data.names")
    encoding: str | None = Field(None, description="overrides data.encoding")


def _files_alone(value: Any) -> Any:
    """`test = "a.csv"` is a table that says nothing else."""
    return {"files": value} if isinstance(value, str | list) else value


Split = Annotated[SplitExamples, BeforeValidator(_files_alone)]


class ExamplesConfig(DataTable):
    """Labelled examples: generated, or read from files."""

    older: ClassVar[Mapping[str, str]] = {"text": "text_column", "label": "label_column"}

    kind: Literal["text", "signal"] = Field("text", description="what an example is: a text, or frames of real numbers")
    corpus: Literal["opinions", "gestures"] | None = Field(
        None, description="a generated corpus: reviews with an opinion, or gestures as signals"
    )
    size: Positive | None = Field(None, description="training examples of the generated corpus")
    dir: BaseDir | None = Field(
        None, description="folder that the file names below are relative to; default: the folder of the recipe"
    )
    train: FilesInDir | None = Field(
        None, description="file, folder, pattern with * or list of them, plain, .gz or .xz, to train on"
    )
    valid: Split | None = Field(
        None, description="the same for validation, or a table; default: held out from training"
    )
    test: Split | None = Field(None, description="the same for testing, or a table")
    format: Format = Field(
        "auto",
        description=(
            "table: CSV, TSV, JSON, JSONL, Parquet, Excel; prefix: the label is the first word of the line; folder: "
            "one text file per class, named after it; trees: bracketed trees with a label on every phrase; ts: "
            "UEA's .ts; arrays: .npz; steps: CSV with one time step per row; rows: CSV with one example "
            "per row, numbers and then the label; ucr: the label first; arff: UCR's and UEA's .arff; auto: by file "
            "name"
        ),
    )
    text_column: str | list[str] = Field(
        "text", description="table: the column of the text, or several, which are joined"
    )
    label_column: str = Field("label", description="table and steps: the column of the label")
    header: bool | None = Field(
        None,
        description=(
            "table and steps: whether the first line names the columns, which otherwise are 0, 1 ...; default: as its "
            "content shows"
        ),
    )
    quotes: bool | None = Field(
        None, description="table: whether quotes enclose cells rather than being letters; default: as its content shows"
    )
    encoding: str = Field("utf-8", description="encoding of text files; UTF-16 is recognised where utf-8 is given")
    names: dict[str, str] | None = Field(
        None, description="new name for each label of the files; examples with other labels are dropped"
    )
    label_until: str | None = Field(
        None, description="cut labels before this string: with ':', DESC:manner becomes DESC"
    )
    valid_size: Share | None = Field(
        None, description="examples (or fraction) held out for validation; default: 1000 or 10%, the smaller"
    )
    test_size: Share = Field(0, description="examples (or fraction) held out for testing if no test files are given")
    stratify: bool = Field(
        False,
        description=(
            "hold the same share of every label out, and of each at least one example in training; true in inferred "
            "recipes; not for data on disk (data.prepared)"
        ),
    )
    seed: Seed = 1
    prepared: PreparedDir = None
    name: CorpusName = None

    lowercase: bool | Literal["mark"] = Field(
        False,
        description="text: lower-case the text; mark: lower-case it and put a mark before words that had capitals",
    )
    drop_tags: bool = Field(False, description="text: replace <br /> and other HTML tags by a space")
    max_tokens: Positive | None = Field(None, description="text: truncate to this many tokens, including the end token")
    keep: Literal["start", "end", "both"] = Field("start", description="text: which part of a truncated text is kept")

    channels: list[str] | None = Field(None, description="steps: the columns that are the signal, in this order")
    frame: Positive = Field(1, description="rows: numbers per frame; 2 for x1 y1 x2 y2 ...")
    recording: str | None = Field(
        None, description="steps: the column that identifies the recording; default: one recording per file"
    )
    group: str | None = Field(None, description="steps: what must not occur in two splits: a column, folder or file")
    window: Positive | None = Field(None, description="steps: frames per example; default: the whole recording")
    step: Positive | None = Field(None, description="steps: hop between windows in frames; default: half a window")
    mixed: Literal["majority", "skip"] = Field(
        "majority", description="steps: a window with several labels gets the majority label or is skipped"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> ExamplesConfig:
        if self.corpus and (self.train or self.valid or self.test):
            raise ValueError("data.corpus is made by harken, but files are named too: keep one of them")
        generated_kind = {"opinions": "text", "gestures": "signal"}.get(self.corpus or "", self.kind)
        if generated_kind != self.kind:
            raise ValueError(f'data.corpus {self.corpus} has data.kind = "{generated_kind}", not "{self.kind}"')
        if self.format != "auto" and (self.format in SIGNALS) != (self.kind == "signal"):
            raise ValueError(f'data.format = "{self.format}" does not hold examples of data.kind = "{self.kind}"')
        return self

    def split(self, name: str) -> ExamplesConfig:
        """The table with everything that a split of its own says; `train` holds its files."""
        overrides = {key: value for key, value in getattr(self, name).model_dump().items() if value is not None}
        return self.model_copy(update={"valid": None, "test": None, "train": overrides.pop("files"), **overrides})
