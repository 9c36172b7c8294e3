"""Trained translators in the formats of other runtimes: ONNX and CTranslate2.

model = harken.load("runs/demo")
export_model(model, "onnx", "runs/demo-onnx")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harken.files import atomic_folder, expand_user

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

__all__ = ["export_model"]


def export_model(translator: Translator, to: Literal["onnx", "ctranslate2"], out: Path | str) -> Path:
    """Write a translator into a new or an empty folder, which appears when everything in it is complete.

    Raises:
        UserError: the folder is not empty, the model has a part or an option that the format has no form for, or the
            format's package is not installed.
    """
    from harken.export.ctranslate2 import export_ctranslate2
    from harken.export.onnx import export_onnx

    with atomic_folder(out) as temporary:
        (export_onnx if to == "onnx" else export_ctranslate2)(translator, temporary)
    return expand_user(out)
