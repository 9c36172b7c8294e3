"""data.json: the files, settings and splits that a run was started on, so that a change is noticed.

    {"harken": "1.0.0",
     "files": [{"key": "data.source", "path": "/home/me/train.en", "given": "train.en", "bytes": 52341, "lines": 1000,
                "sha256": "..."}],
     "settings": {"data.seed": 1, ...},
     "parts": {"train": "950:8c31...", "valid": "50:02fe..."},
     "accepted": [{"date": "2026-01-31", "changes": ["..."]}],
     "fingerprint": "..."}

`settings` are the values of `[data]` that are no paths; a part has its number of examples and a digest that does not
depend on their order (`harken.data.splits`). `fingerprint` is a hash of all this: runs on equal data have equal ones.
`harken train --resume` compares everything, `harken evaluate` the files and settings, and the parts where another
version of harken trained the model.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harken.data.fingerprints import Fingerprint, InputFile, describe_change, fingerprint
from harken.data.splits import changed_parts
from harken.errors import UserError
from harken.files import atomic_write, read_limited
from harken.paths import map_paths

if TYPE_CHECKING:
    from harken.recipe import Recipe
    from harken.tasks.job import Job

DATA = "data.json"
LARGEST = 100_000_000  # bytes of data.json: some hundred thousand files
UNCHECKED = "{} has no data.json, as an older harken made it, so it was not checked whether its data changed"
ACCEPT = "accept_changed_data=True"
READING = 1  # raised whenever the same files and settings would give other splits than before


class Change(NamedTuple):
    """One difference between the data of a run and what is there now."""

    text: str
    is_missing: bool = False  # what is not there cannot be accepted


class ChangedDataError(UserError):
    """The data of a run is not what it was started on."""

    def __init__(self, folder: Path, changes: list[Change], accept: str = ACCEPT, instead: str = "") -> None:
        """
        Args:
            accept: how a user says that the change is meant.
            instead: another way out.
        """
        self.folder, self.changes = folder, changes
        first = next((change for change in changes if change.is_missing), changes[0])
        others = len(changes) - 1
        more = f" (and {others} other change{'s' * (others > 1)})" if others else ""
        ways = ["restore it" if first.is_missing else "undo the change"]
        ways += [f"go on with {accept}"] if not first.is_missing else []
        ways += [instead] if instead else []
        super().__init__(f"the data of {folder} changed: {first.text}{more}; {', or '.join(ways)}")


@dataclass
class DataRecord:
    """The record of the data that a run was started on: files, settings, and digests of its parts."""

    files: dict[InputFile, Fingerprint] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    accepted: list[dict[str, Any]] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)  # key -> path as the recipe has it
    reading: int = 0  # the `READING` that made the parts

    @classmethod
    def of(
        cls, job: Job, recipe: Any, parts: dict[str, str] | None = None, known: DataRecord | None = None
    ) -> DataRecord:
        """Read everything that a recipe names; not again where `known` has its fingerprint.

        Raises:
            UserError: a file cannot be read.
        """
        before = {(source.key, source.name): stored for source, stored in known.files.items()} if known else {}
        sources = job.input_files(recipe)
        fingerprints = {source: before.get((source.key, source.name)) or fingerprint(source) for source in sources}
        files = {source: known for source, known in fingerprints.items() if known is not None}
        return cls(files, settings_of(recipe), parts or {}, [], dict(recipe.written_paths), READING)

    @classmethod
    def load(cls, folder: Path) -> DataRecord | None:
        """The record of a run folder; None where an older harken wrote none.

        Raises:
            UserError: it is damaged.
        """
        try:
            stored = json.loads(read_limited(folder / DATA, LARGEST))
            record = cls._from_dict(stored)
            if stored["fingerprint"] != record.fingerprint:
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UserError(
                f"{folder / DATA} is damaged, so changes of the data cannot be noticed; copy it again, or delete it to "
                "go on without"
            ) from None
        return record

    def save(self, folder: Path) -> None:
        """Write data.json."""
        content = {**self._to_dict(), "accepted": self.accepted, "fingerprint": self.fingerprint}
        atomic_write(folder / DATA, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @property
    def fingerprint(self) -> str:
        """A hash of contents, settings and parts; where files are and what they are called is left out."""
        said = [
            [[source.key, source.name, known.sha256] for source, known in self.files.items()],
            self.settings,
            self.parts,
        ]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def changes(self, job: Job, recipe: Any) -> list[Change]:
        """The settings and files that differ from those of the recipe now; `changes_of_parts` compares the parts.

        Embeddings and models that a run was initialised from are recorded, but not needed any more.
        """
        from harken.tasks.job import Job

        now = settings_of(recipe)
        changes = [
            Change(f"{key} is {_written(now[key])} where the run was started with {_written(old)}")
            for key, old in self.settings.items()
            if key in now and now[key] != old
        ]
        known = {source: print_ for source, print_ in self.files.items() if source.key.startswith("data.")}
        try:
            sources = [source for source in job.input_files(recipe) if source.key.startswith("data.")]
        except UserError:  # a file that says which others are read is missing or damaged
            alone = {source: print_ for source, print_ in known.items() if source.members is None}
            named = Job.input_files(job, recipe)  # reads nothing
            now_at = {(source.key, source.name): source for source in (*alone, *named)}
            missing = self._changed(alone, now_at)
            if not missing:
                raise
            return [*changes, *missing]
        by_name = {(source.key, source.name): source for source in sources}
        changes += self._changed(known, by_name)
        old_names = {(source.key, source.name) for source in known}
        if not any(change.text for change in changes):
            new = [source for name, source in by_name.items() if name not in old_names and os.path.isfile(source.path)]
            changes += [
                Change(f"{_shown(source.path)} ({source.key}) is new since the run was started") for source in new
            ]
        return changes

    def changes_for_evaluation(self, job: Job, recipe: Any) -> list[Change]:
        """Those of `changes`, and those of the parts where files were read in another way when they were made."""
        changes = self.changes(job, recipe)
        if not changes and self.parts and self.reading != READING:
            changes = self.changes_of_parts(digests_of(job.load_data(recipe)))
        return changes

    def _changed(self, known: dict[InputFile, Fingerprint], now: dict[tuple[str, str], InputFile]) -> list[Change]:
        changed: list[tuple[InputFile, Fingerprint, Fingerprint | None]] = []
        for source, before in known.items():
            current = now.get((source.key, source.name))
            after = None if current is None else fingerprint(current)
            if after is None or after.sha256 != before.sha256:
                changed.append((current or source, before, after))
        for source, before, after in changed:
            for other, other_before, other_after in changed:
                hashes = after and after.sha256, other_after and other_after.sha256
                if source is not other and hashes == (other_before.sha256, before.sha256):
                    pair = f"{_shown(source.path)} ({source.key}) and {_shown(other.path)} ({other.key})"
                    return [Change(f"{pair} are swapped: each has the content that the other had")]
        return [
            Change(describe_change(f"{_shown(source.path)} ({source.key})", before, after), after is None)
            for source, before, after in changed
        ]

    def changes_of_parts(self, parts: dict[str, str]) -> list[Change]:
        """The splits that have other examples, though files and settings may be equal."""
        changes = []
        for name in changed_parts(self.parts, parts) if parts and self.parts else []:
            old, new = (int(digests.get(name, "0:").partition(":")[0]) for digests in (self.parts, parts))
            much = (
                f"{new:,} examples where the run was started on {old:,}" if old != new else "other examples than then"
            )
            changes.append(Change(f"the {name} split has {much}"))
        return changes

    def accept(self, earlier: DataRecord | None, changes: list[Change]) -> None:
        """Note that a run goes on with this data in the place of that of `earlier`."""
        self.accepted = list(earlier.accepted) if earlier else []
        if changes:
            self.accepted.append({"date": time.strftime("%Y-%m-%d"), "changes": [change.text for change in changes]})

    def format_accepted(self) -> str:
        """The accepted changes for the card; empty where the data never changed."""
        return "; ".join(text for entry in self.accepted for text in entry["changes"])

    def _to_dict(self) -> dict[str, Any]:
        import harken

        files = []
        for source, known in self.files.items():
            entry: dict[str, Any] = {"key": source.key, "path": str(source.path)}
            if source.key in self.given:
                entry["given"] = self.given[source.key]
            if source.name:
                entry["name"] = source.name
            if source.members is not None:
                entry["listed"] = True
            files.append({**entry, **{unit: value for unit, value in vars(known).items() if value is not None}})
        return {
            "harken": harken.__version__,
            "reading": self.reading,
            "files": files,
            "settings": self.settings,
            "parts": self.parts,
        }

    @classmethod
    def _from_dict(cls, content: Any) -> DataRecord:
        files, given = {}, {}
        for entry in content["files"]:
            members = () if entry.get("listed") else None
            source = InputFile(str(entry["key"]), Path(entry["path"]), str(entry.get("name", "")), members)
            counts = {unit: entry.get(unit) for unit in ("lines", "files")}
            files[source] = Fingerprint(str(entry["sha256"]), int(entry["bytes"]), **counts)
            if "given" in entry:
                given[source.key] = str(entry["given"])
        accepted = [
            {"date": str(entry["date"]), "changes": [*map(str, entry["changes"])]} for entry in content["accepted"]
        ]
        parts = {str(name): str(part) for name, part in content["parts"].items()}
        return cls(files, dict(content["settings"]), parts, accepted, given, int(content.get("reading", 0)))


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The values of `[data]` that are no paths, by their keys: with the files they decide every split."""
    data = getattr(recipe, "data", None)
    if data is None:
        return {}
    blank = map_paths(data, lambda declared: "PATH" if declared.is_path else declared.value)
    return _flat(json.loads(blank.model_dump_json(exclude={"name", "prepared"})), "data")


def digests_of(data: Any) -> dict[str, str]:
    """The digests of a corpus that has some."""
    return dict(data.digests()) if hasattr(data, "digests") else {}


def _flat(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        whole = f"{prefix}.{key}"
        flat |= _flat(value, whole) if isinstance(value, dict) and value else {whole: value}
    return flat


def _shown(path: Path) -> str:
    """Relative to the working directory where it lies below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _written(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)[:80]
