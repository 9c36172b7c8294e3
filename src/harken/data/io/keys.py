"""One vocabulary for the `[data]` tables of all jobs.

    train, valid, test            files of the splits
    valid_size, test_size         examples, or their share, that are held out where no files are given
    dir, format, header, name     where the files are, how they are read, what reports call them
    NAME_column                   columns: text, label, word, tag, source, target, audio, image, caption, speaker, date

Keys that had other names up to harken 0.1 are accepted under them, with a warning that says the new one.

>>> class Table(DataTable):
...     older = {"file": "train"}
...     train: str | None = None
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     table = Table.model_validate({"file": "a.csv"})
>>> table.train, table.file, str(said[0].message)
('a.csv', 'a.csv', 'data.file is now called data.train; the old name still works')
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.paths import OutputDir

Share = Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)]
PreparedDir = Annotated[
    OutputDir | None,
    Field(
        description=(
            "folder for prepared data: ids in memory-mapped files, used again by later runs; default: the user's cache "
            "folder if the training files have more than 64 MB, else none"
        )
    ),
]
CorpusName = Annotated[str | None, Field(description="name of the corpus in reports; default: from its files")]
Seed = Annotated[int, Field(ge=0, description="seed of the held-out split and of the generated corpus")]


class DataTable(BaseModel):
    """A `[data]` table whose keys may be given by older names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    older: ClassVar[Mapping[str, str]] = {}  # older name -> name
    origins: ClassVar[tuple[str, ...]] = ()  # keys of which one alone may be given

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, values: Any) -> Any:
        return cls.renamed(values)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        given = [f"data.{key}" for key in self.origins if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; keep one of them")
        return self

    @classmethod
    def renamed(cls, values: Any) -> Any:
        """The values under the current names of their keys; an older name counts more, as a user wrote it."""
        if not isinstance(values, Mapping) or not cls.older.keys() & values.keys():
            return values
        current = {key: value for key, value in values.items() if key not in cls.older}
        for old, new in cls.older.items():
            if old in values:
                current[new] = values[old]
                message = f"data.{old} is now called data.{new}; the old name still works"
                warnings.warn(message, FutureWarning, stacklevel=2)
        return current

    def __getattr__(self, name: str) -> Any:
        """Attributes by their older names."""
        if name in type(self).older:
            return getattr(self, type(self).older[name])
        return super().__getattr__(name)  # type: ignore[misc]
