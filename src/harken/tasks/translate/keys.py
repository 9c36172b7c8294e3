"""The keyword arguments of `Translator`'s calls, as types; `Translator.request` and `nbest` say what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harken.search.descriptions import TextKeys

if TYPE_CHECKING:
    from harken.tasks.predictor import Progress
    from harken.tasks.translate.translator import Translator


class RequestKeys(TextKeys, total=False):
    """Those of `Translator.request`, without `beam`."""

    prefix: str | Sequence[str]
    prefix_bias: float | None
    require: Sequence[str] | Sequence[Sequence[str]]
    ensemble: Sequence[Translator]
    weights: Sequence[float] | None
    cancelled: Callable[[], bool] | None
    terms: Sequence[Sequence[tuple[str, str]]]


class TranslateKeys(RequestKeys, total=False):
    """Those of `Translator.nbest`."""

    beam: int | None
    attention: bool
    layers: bool
    progress: Progress | None
