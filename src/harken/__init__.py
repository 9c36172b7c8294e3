"""Train, open up and serve sequence models, from a vanilla RNN to the Transformer, on one spine.

    import harken
    model = harken.train("tatoeba-transformer", out="runs/demo")   # or harken.load("runs/demo")
    best = model.translate("My brother works in a hospital.", beam=5)
    best.text, best.score, best.attention

Every name below is imported when it is first used, so `import harken` itself is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken import nn
    from harken.api import distill, load, train
    from harken.checking import check
    from harken.errors import UserError
    from harken.estimators.classifier import SequenceClassifier
    from harken.estimators.declared import estimator_of
    from harken.estimators.forecaster import SequenceForecaster
    from harken.estimators.regressor import SequenceRegressor
    from harken.estimators.tagger import SequenceTagger
    from harken.recipe.look import look
    from harken.registry import (
        register_cell,
        register_encoder,
        register_metric,
        register_positions,
        register_score,
        register_task,
    )
    from harken.run_folders.frame import runs
    from harken.sweeps.results import Sweep
    from harken.sweeps.sweep import sweep
    from harken.tasks.answer.answerer import Answer, Answerer
    from harken.tasks.caption.captioner import Caption, Captioner
    from harken.tasks.classify.classifier import Classifier
    from harken.tasks.forecast.forecast import Forecast
    from harken.tasks.forecast.forecaster import Forecaster
    from harken.tasks.handwriting.strokes import Strokes
    from harken.tasks.handwriting.synthesizer import HandwritingSynthesizer
    from harken.tasks.language.language_model import LanguageModel
    from harken.tasks.masked.job import MaskedLanguageModel
    from harken.tasks.regress.job import Regressor
    from harken.tasks.tag.tagger import Tagger, Tagging
    from harken.tasks.transcribe.transcriber import Transcriber
    from harken.tasks.transcribe.transcription import Transcription
    from harken.tasks.translate.translation import Translation
    from harken.tasks.translate.translator import Translator

__version__ = "0.2.0"  # pyproject.toml reads it from here

__all__ = [
    "Answer",
    "Answerer",
    "Caption",
    "Captioner",
    "Classifier",
    "Forecast",
    "Forecaster",
    "HandwritingSynthesizer",
    "LanguageModel",
    "MaskedLanguageModel",
    "Regressor",
    "SequenceClassifier",
    "SequenceForecaster",
    "SequenceRegressor",
    "SequenceTagger",
    "Strokes",
    "Sweep",
    "Tagger",
    "Tagging",
    "Transcriber",
    "Transcription",
    "Translation",
    "Translator",
    "UserError",
    "__version__",
    "check",
    "distill",
    "estimator_of",
    "load",
    "look",
    "nn",
    "register_cell",
    "register_encoder",
    "register_metric",
    "register_positions",
    "register_score",
    "register_task",
    "runs",
    "sweep",
    "train",
]

_HOME = {  # name -> the module that defines it
    "Answer": "harken.tasks.answer.answerer",
    "Answerer": "harken.tasks.answer.answerer",
    "Caption": "harken.tasks.caption.captioner",
    "Captioner": "harken.tasks.caption.captioner",
    "Classifier": "harken.tasks.classify.classifier",
    "Forecast": "harken.tasks.forecast.forecast",
    "Forecaster": "harken.tasks.forecast.forecaster",
    "LanguageModel": "harken.tasks.language.language_model",
    "HandwritingSynthesizer": "harken.tasks.handwriting.synthesizer",
    "MaskedLanguageModel": "harken.tasks.masked.job",
    "Regressor": "harken.tasks.regress.job",
    "SequenceClassifier": "harken.estimators.classifier",
    "SequenceForecaster": "harken.estimators.forecaster",
    "SequenceRegressor": "harken.estimators.regressor",
    "SequenceTagger": "harken.estimators.tagger",
    "Strokes": "harken.tasks.handwriting.strokes",
    "Sweep": "harken.sweeps.results",
    "Tagger": "harken.tasks.tag.tagger",
    "Tagging": "harken.tasks.tag.tagger",
    "Transcriber": "harken.tasks.transcribe.transcriber",
    "Transcription": "harken.tasks.transcribe.transcription",
    "Translation": "harken.tasks.translate.translation",
    "Translator": "harken.tasks.translate.translator",
    "UserError": "harken.errors",
    "check": "harken.checking",
    "distill": "harken.api",
    "estimator_of": "harken.estimators.declared",
    "load": "harken.api",
    "look": "harken.recipe.look",
    "register_cell": "harken.registry",
    "register_encoder": "harken.registry",
    "register_metric": "harken.registry",
    "register_positions": "harken.registry",
    "register_score": "harken.registry",
    "register_task": "harken.registry",
    "runs": "harken.run_folders.frame",
    "sweep": "harken.sweeps.sweep",
    "train": "harken.api",
}


_EARLIER = {"MaskedReader": "MaskedLanguageModel", "Penman": "HandwritingSynthesizer"}  # names in 0.1


def __getattr__(name: str) -> Any:
    if name in _EARLIER:
        value = __getattr__(_EARLIER[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name == "nn":
        value = import_module("harken.nn")
    else:
        raise AttributeError(f"module 'harken' has no attribute {name!r}")
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
