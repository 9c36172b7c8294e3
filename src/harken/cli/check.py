"""`harken check`: what a recipe would do, before it does it."""

from __future__ import annotations

import json

from harken.cli.common import AsJson, Overrides, RecipeName, bytes_in_words, print_table, seconds_in_words


def check(
    recipe: RecipeName,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Check a recipe's keys, files and shapes, and estimate parameters, memory and time, without training."""
    from harken.checking import check as run

    found = run(recipe, overrides or [])
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    parts = ", ".join(f"{part} {count:,}" for part, count in found.size.parameters.items() if count)
    rows = [
        ("recipe", f"{recipe} is sound"),
        ("data", found.corpus),
        ("parameters", f"{found.parameters:,} ({parts})"),
        ("memory", f"about {bytes_in_words(found.memory_bytes)} to train"),
        ("cost", f"{found.size.flops_per_target_token / 1e6:,.1f} MFLOP for each target token"),
        ("time", f"about {seconds_in_words(found.seconds)} on this CPU" if found.seconds else "not known"),
        *(("note", note) for note in found.notes),
    ]
    print_table(("", ""), rows)
