"""What a table of BLEU against training FLOPs shows: rows, Markdown, and two figures, from the record alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harken.files import atomic_write
from harken.inspection.figure import Figure, Lines, Series
from harken.inspection.pictures.picture import Picture
from harken.lab.table2 import BASELINE, ENSEMBLE, MEMBERS, SETTINGS, Table2
from harken.metrics import compare_systems


@dataclass(frozen=True)
class Row:
    """One family at one budget, over its seeds; without `bleu` it is missing."""

    family: str
    shows: str
    budget: float
    bleu: list[float]  # of each seed
    flops: float = 0.0  # counted, the mean
    seconds: float = 0.0  # of training, the mean
    parameters: int = 0
    active: int = 0
    setting: str = ""
    difference: float | None = None  # BLEU beyond the baseline at the same budget, of the first seeds
    p_value: float | None = None  # of a paired bootstrap


class Report:
    """The table of a record."""

    HEADINGS = (
        *("family", "network", "budget", "BLEU", "seeds", "against base", "p", "FLOPs", "parameters", "active"),
        *("seconds", "rate, dropout, batch"),
    )

    def __init__(self, table: Table2) -> None:
        self.table, self.signatures = table, dict[str, None]()
        ensemble = (ENSEMBLE, f"{MEMBERS} seeds of {table.ensemble}, summed cost")
        names = [*((family.name, family.shows) for family in table.families.values()), ensemble]
        self.rows = [
            self._row(*name, budget)
            for budget in table.budgets
            for name in names
            if name is ensemble or budget <= table.families[name[0]].most
        ]

    def _row(self, family: str, shows: str, budget: float) -> Row:
        scored = self.table.record.scored(family, budget)
        if not scored:
            return Row(family, shows, budget, [])
        entries = [entry for _, entry in scored]
        self.signatures |= dict.fromkeys(entry["signature"] for entry in entries)
        first, rate = entries[0], entries[0].get("learning_rate")
        row = Row(
            family,
            shows,
            budget,
            [entry["bleu"] for entry in entries],
            flops=fmean(entry["flops"] for entry in entries),
            seconds=fmean(entry["seconds"] for entry in entries),
            parameters=first["parameters"],
            active=first["active"],
            setting=f"{rate:g}, {first['dropout']:g}, {first['batch_tokens']:,}" if rate else "",
        )
        baseline = self.table.record.scored(BASELINE, budget)
        if not baseline or family == BASELINE:
            return row
        files = [self.table.output(name) for name in (scored[0][0].name, baseline[0][0].name, "reference")]
        if not all(path.is_file() for path in files):
            return row
        own, other, references = (path.read_text(encoding="utf-8").splitlines() for path in files)
        test = compare_systems(own, other, references)
        return replace(row, difference=test.difference, p_value=test.p_value)

    def cells(self) -> list[tuple[str, ...]]:
        """The table for people."""
        wanted = len(self.table.seeds)
        rows = []
        for row in self.rows:
            seeds = 1 if row.family == ENSEMBLE else wanted
            cells = [row.family, row.shows, f"{row.budget:g}"]
            if not row.bleu:
                rows.append((*cells, "missing", f"0 of {seeds}", *[""] * (len(self.HEADINGS) - 5)))
                continue
            deviation = f" ± {stdev(row.bleu):.2f}" if len(row.bleu) > 1 else ""
            compared = "baseline" if row.family == BASELINE else ""
            cells += [f"{fmean(row.bleu):.2f}{deviation}", f"{len(row.bleu)} of {seeds}"]
            cells += [compared if row.difference is None else f"{row.difference:+.2f}"]
            cells += ["" if row.p_value is None else f"{row.p_value:.3f}", f"{row.flops:.3g}"]
            cells += [f"{row.parameters:,}", f"{row.active:,}", f"{row.seconds:,.0f}", row.setting]
            rows.append(tuple(cells))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"signature": list(self.signatures), "rows": [asdict(row) for row in self.rows]}

    def markdown(self) -> str:
        """The table for a page."""
        lines = [self.HEADINGS, ["---"] * len(self.HEADINGS), *self.cells()]
        trials = f"{self.table.trials} of {len(SETTINGS)}"
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + (
            f"\nBLEU of {', '.join(self.signatures) or 'no run yet'}. p: paired bootstrap, 1,000 draws, first seeds. "
            f"Settings tried for each family at {self.table.budgets[0]:g} FLOPs, chosen by validation loss: {trials}.\n"
        )

    def save(self) -> list[Path]:
        """Write table.md and, where a row is there, the figures as SVG and PNG."""
        paths = [self.table.folder / "table.md"]
        atomic_write(paths[0], self.markdown())
        if any(row.bleu for row in self.rows):
            for key, label in (("flops", "training FLOPs, counted"), ("seconds", "seconds of training")):
                picture = BleuAgainst(self.rows, key, label)
                paths += [picture.save(self.table.folder / f"bleu-{key}{ending}") for ending in (".svg", ".png")]
        return paths


class BleuAgainst(Picture):
    """BLEU against a cost, a line for each family; the band is the range over seeds."""

    def __init__(self, rows: list[Row], key: str, label: str) -> None:
        self.rows, self.key, self.label = [row for row in rows if row.bleu], key, label
        self.title = f"BLEU against {label}"

    def figures(self) -> list[Figure]:
        series = []
        for number, family in enumerate(dict.fromkeys(row.family for row in self.rows)):
            rows = [row for row in self.rows if row.family == family]
            x, y = [getattr(row, self.key) for row in rows], [fmean(row.bleu) for row in rows]
            low, high = [min(row.bleu) for row in rows], [max(row.bleu) for row in rows]
            is_band = any(len(row.bleu) > 1 for row in rows)
            dashed = family == ENSEMBLE or number >= 8  # there are eight colours
            series.append(Series(family, x, y, low if is_band else None, high if is_band else None, dashed=dashed))
        ticks = [(budget, f"{budget:g}") for budget in sorted({row.budget for row in self.rows})]
        panel = Lines("", self.label, "BLEU", series, log_x=True, x_ticks=ticks if self.key == "flops" else ())
        return [Figure(self.title, [panel])]
