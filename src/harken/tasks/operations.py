"""Operations that several jobs have: attention, gates and scores of texts (`harken.tasks.interface.Operation`).

Nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from harken.errors import UserError
from harken.tasks.interface import Operation, Option, Options, Texts

MAX_TRACED = 1000  # characters of a text whose gates are shown


@dataclass(frozen=True)
class AttentionRequest:
    """A text, and for translators perhaps its translation."""

    text: Annotated[str, Option("a sentence")]
    target: Annotated[str | None, Option("a translation to look at; default: the model's own")] = None


@dataclass(frozen=True)
class AttentionOptions(Options):
    """The part of the attention that is shown."""

    kind: Annotated[
        Literal["cross", "encoder", "decoder"] | None, Option("which attention; default: all", in_command=False)
    ] = None
    layer: Annotated[int | None, Option("this layer alone, counted from 0", ge=0, in_command=False)] = None
    head: Annotated[int | None, Option("this head alone, counted from 0", ge=0, in_command=False)] = None


@dataclass(frozen=True)
class GatesRequest:
    """A text, and for translators perhaps what the decoder reads."""

    text: Annotated[str, Option("what the model reads", max_length=MAX_TRACED)]
    target: Annotated[str | None, Option("translators: what the decoder reads", max_length=MAX_TRACED)] = None


@dataclass(frozen=True)
class GatesOptions(Options):
    """The detail of gates."""

    units: Annotated[bool, Option("every unit, and not summaries alone")] = False


@dataclass(frozen=True)
class ScoreRequest:
    """Texts, and for translators their translations."""

    text: Annotated[str | list[str], Option("texts; for a translator the sources")]
    target: Annotated[str | list[str] | None, Option("translators: the translation of each text")] = None


@dataclass(frozen=True)
class ScoredTexts(Texts):
    """Texts, each perhaps with a target."""

    request: type = field(default=ScoreRequest, kw_only=True)

    def items(self, body: Any) -> list[dict[str, Any]]:
        texts, targets = ([given] if isinstance(given, str) else given for given in (body.text, body.target))
        if targets is None:
            return [{"text": text} for text in texts]
        if len(targets) != len(texts):
            raise UserError(f"there are {len(targets)} targets for {len(texts)} texts; give one for each")
        return [{"text": text, "target": target} for text, target in zip(texts, targets, strict=True)]


ATTENTION = Operation(
    "attention",
    "The attention of any layer and head over pieces; of classifiers and regressors the weights over words.",
    Texts(request=AttentionRequest),
    AttentionOptions,
    takes_search=True,
    changes_model=True,
)
GATES = Operation(
    "gates",
    "Every gate and state of a recurrent model over the steps of a text.",
    Texts(request=GatesRequest),
    GatesOptions,
    needs_recurrence=True,
    changes_model=True,
)
SCORE = Operation(
    "score",
    "How probable given translations, or texts of a language model, are; token by token.",
    ScoredTexts(),
)
