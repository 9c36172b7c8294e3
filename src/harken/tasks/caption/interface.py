"""The interface of captioners: `harken caption`, `POST /v1/caption`."""

from __future__ import annotations

from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated

from harken.search.descriptions import DecodingKeys, TextKeys
from harken.tasks.interface import MAX_SERVED_BEAM, Argument, Files, Interface, Option, Options, search_fields

TEXT_ONLY = TextKeys.__annotations__.keys() - DecodingKeys.__annotations__.keys()  # options without a meaning here
PICTURES = Argument(
    "images", list[Path], "PNG or JPEG files, or folders of them.", is_required=True, metavar="IMAGE..."
)
BEAM = Option("live hypotheses; 1 is greedy search; default: the recipe's", ge=1, le=1000, served_le=MAX_SERVED_BEAM)
SEARCH = [(name, Annotated[field.kind, field.option], None) for name, field in search_fields(TEXT_ONLY).items()]
CaptionOptions = make_dataclass(
    "CaptionOptions", [("beam", Annotated[int | None, BEAM], None), *SEARCH], bases=(Options,), frozen=True
)
INTERFACE = Interface(
    verb="caption",
    help="Describe pictures, and show which regions the model attends to for every word.",
    input=Files(
        PICTURES,
        example="picture.png",
        endings=(".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif"),
        noun="picture",
        name_key="image",
    ),
    options=CaptionOptions,
    examples=(
        "harken caption runs/scenes picture.png",
        "harken caption runs/scenes a.png b.png --json",
        "harken caption runs/scenes pictures --out maps.html      (a folder; one map a word)",
    ),
    usage="harken caption {} picture.png",
    unit="pictures",
    figure="maps",
)
