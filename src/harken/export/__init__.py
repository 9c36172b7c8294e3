"""Trained translators in the formats of other runtimes: ONNX and CTranslate2.

model = harken.load("runs/demo")
export_model(model, "onnx", "runs/demo-onnx")
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harken.errors import UserError
from harken.files import expand_user, sync_folder

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

    target = expand_user(out).absolute()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UserError(f"{out} is not empty; choose another folder")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        (export_onnx if to == "onnx" else export_ctranslate2)(translator, temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as problem:
        raise UserError(f"{out} cannot be written ({problem.strerror}); choose another place") from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target
