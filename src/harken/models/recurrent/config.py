"""Configs of recurrent encoders, decoders and language models: each is the argument of its class.

>>> RecurrentDecoderConfig(width=8).cell_arguments
{'layer_norm': False, 'peephole': None, 'coupled': False}
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import START, TIED_OUTPUT, CellName, ModelTable, ScoreName
from harken.paths import PathStr
from harken.registry import CELLS

CELL_OPTIONS = {  # the cell that has the option, and its default
    "nonlinearity": ("rnn", "tanh"),
    "peephole": ("lstm", "none"),
    "coupled": ("lstm", False),
    "forget_bias": ("lstm", 1.0),
    "reset": ("gru", "after"),
}


class RecurrentCellsConfig(ModelTable):
    """Cells and the connections between layers, which encoders, decoders and language models share."""

    cell: CellName = Field("lstm", description="recurrent cell, or the name of a registered one")
    nonlinearity: Literal["tanh", "relu", "sigmoid"] = Field("tanh", description="rnn: activation of the new state")
    peephole: Literal["none", "diagonal", "full"] = Field(
        "none", description="lstm: peephole connections, one weight per unit (diagonal) or a matrix (full)"
    )
    coupled: bool = Field(False, description="lstm: coupled gates, input gate = 1 - forget gate")
    forget_bias: float = Field(1.0, description="lstm: initial bias of the forget gates")
    reset: Literal["after", "before"] = Field(
        "after", description="gru: apply the reset gate after the recurrent product, as in PyTorch, or before it"
    )
    layer_norm: bool = Field(False, description="layer normalisation inside the cells, per gate (Ba et al., 2016)")
    zoneout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a unit keeps its old state at a step (Krueger et al., 2017)",
    )
    recurrent_dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent state, one mask for all steps (Gal and Ghahramani, 2016)"
    )
    layers: int = Field(1, ge=1, description="layers in the encoder and in the decoder")
    connections: Literal["none", "residual", "highway", "dense"] = Field(
        "none", description="connections between layers"
    )
    connections_from: int = Field(
        2, ge=2, description="first layer, counted from 1, that has such connections; 3 in Wu et al. (2016)"
    )
    embedding: int = Field(256, ge=1, description="width of word embeddings")
    width: int = Field(
        512, ge=2, description="hidden width of the decoder; a bidirectional encoder has half per direction"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on embeddings, between layers and before the output")
    variational: bool = Field(
        True, description="one dropout mask for all steps of a sentence (Gal and Ghahramani, 2016)"
    )

    @property
    def parts(self) -> int:
        """Vectors in the state of a layer: h, and c of an LSTM."""
        if self.is_registered_cell:
            return len(CELLS.find(self.cell)(1, 1).state_sizes)
        return 2 if self.cell == "lstm" else 1

    @property
    def is_registered_cell(self) -> bool:
        """Whether the cell comes from another package (`harken.registry`)."""
        return self.cell not in CELLS.shipped

    @property
    def cell_arguments(self) -> dict[str, Any]:
        """The options of the cell's class other than its sizes."""
        own: dict[str, dict[str, Any]] = {
            "rnn": {"nonlinearity": self.nonlinearity},
            "lstm": {"peephole": None if self.peephole == "none" else self.peephole, "coupled": self.coupled},
            "gru": {"reset": self.reset},
        }
        return {"layer_norm": self.layer_norm, **own.get(self.cell, {})}

    @model_validator(mode="after")
    def _options_fit_the_cell(self) -> RecurrentCellsConfig:
        for key, (cell, default) in CELL_OPTIONS.items():
            value = getattr(self, key)
            if value != default and self.cell != cell:
                shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
                raise ValueError(
                    f'{key} = {shown} is an option of cell = "{cell}", not of "{self.cell}"; choose that cell, or '
                    f"remove {key}"
                )
        if self.connections == "none" and self.connections_from != 2:
            raise ValueError(
                'model.connections_from is the first layer with connections, but model.connections is "none"; '
                'choose "residual", "highway" or "dense"'
            )
        return self


class RecurrentEncoderConfig(RecurrentCellsConfig):
    """Recurrent layers that read in one direction or in both."""

    architecture: Literal["recurrent"] = "recurrent"
    start: PathStr | None = Field(None, description=START)
    bidirectional: bool | Literal["first"] = Field(
        True, description="bidirectional: in every layer, or only in the first"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentEncoderConfig:
        refuse_odd_width(self.bidirectional, self.width)
        return self


def refuse_odd_width(bidirectional: bool | str, width: int) -> None:
    """Each direction of a bidirectional layer has half of the width.

    Raises:
        ValueError: half of the width is no whole number.
    """
    if bidirectional and width % 2:
        raise ValueError(f"model.width {width} is odd; a bidirectional encoder gives each direction half of it")


class RecurrentStackConfig(RecurrentCellsConfig):
    """Cells, connections, and how a decoder uses the source."""

    attention: Literal["none"] | ScoreName = Field(
        "additive",
        description="score of the decoder's attention; none: the decoder gets the encoder's last state alone",
    )
    attend: Literal["after", "before"] = Field(
        "after",
        description="attend with the new state (Luong et al., 2015), or before the step with the last one; the step "
        "then reads the context in place of input feeding (Bahdanau et al., 2015)",
    )
    look_from: Literal["top", "bottom"] = Field(
        "top", description="the decoder layer whose state is the query; bottom as in Wu et al. (2016)"
    )
    context: Literal["initial", "constant"] = Field(
        "initial",
        description="without attention: the source initialises the state, or is also an input of every step",
    )
    context_to: Literal["first", "all"] = Field(
        "first", description="the decoder layers that read the context (or the last attentional state)"
    )
    coverage: bool = Field(
        False, description="additive score: the sum of earlier weights is an input (Tu et al., 2016; See et al., 2017)"
    )
    hard_attention: bool = Field(
        False, description="soft attention in training, outside of it the best source position alone"
    )
    input_feeding: bool = Field(
        True, description="input feeding: the attentional state is an input of the next step (Luong et al., 2015)"
    )

    @model_validator(mode="after")
    def _options_fit(self) -> RecurrentStackConfig:
        attends = self.attention != "none"
        if self.coverage and self.attention != "additive":
            raise ValueError(
                f'model.coverage is an input of the additive score, but model.attention is "{self.attention}"; '
                'set model.attention = "additive", or coverage = false'
            )
        for key, default in {"attend": "after", "hard_attention": False, "look_from": "top"}.items():
            if not attends and getattr(self, key) != default:
                raise ValueError(f'model.{key} is an option of attention, but model.attention is "none"; name a score')
        if attends and self.context == "constant":
            raise ValueError(
                f'model.context = "constant" is one context for all steps, but model.attention = "{self.attention}" '
                'computes one for each; set model.attention = "none", or context = "initial"'
            )
        fed = self.attend == "before" or self.input_feeding if attends else self.context == "constant"
        if self.context_to == "all" and not fed:
            remedy = "set model.input_feeding = true" if attends else 'set model.context = "constant"'
            raise ValueError(f'model.context_to = "all", but no layer reads a context; {remedy}')
        return self


class RecurrentDecoderConfig(RecurrentStackConfig):
    """Recurrent decoder for any encoder."""

    architecture: Literal["recurrent"] = "recurrent"

    @model_validator(mode="before")
    @classmethod
    def _is_unidirectional(cls, values: Any) -> Any:
        """Explain why the key does not exist."""
        if isinstance(values, dict) and values.get("bidirectional"):
            raise ValueError(
                "model.decoder.bidirectional is set, but a decoder writes from left to right: a second direction would "
                "read the words it has to predict; remove the key"
            )
        return values


class RecurrentLanguageConfig(RecurrentCellsConfig):
    """Recurrent language model with the regularisation of Merity et al. (2018)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool = Field(False, description="always false: a second direction would see the tokens to predict")
    top: Literal["width", "embedding"] = Field(
        "width", description="width of the last layer: as the others, or as the embedding, which it may be tied to"
    )
    dropout_between: float | None = Field(None, ge=0, lt=1, description="dropout between layers; default: `dropout`")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of word types whose embedding is zeroed in a batch")
    weight_drop: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent weights, one mask per batch (Merity et al., 2018)"
    )
    activation_penalty: float = Field(
        0.0,
        ge=0,
        description="weight in the loss of the mean square of the top layer's states (activation regularisation)",
    )
    temporal_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "weight in the loss of the mean square of their differences over time (temporal activation regularisation)"
        ),
    )
    tied: bool = Field(True, description=TIED_OUTPUT)

    @model_validator(mode="after")
    def _options_fit(self) -> RecurrentLanguageConfig:
        if self.bidirectional:
            raise ValueError(
                "model.bidirectional is true, but a bidirectional layer in a language model would see the words it "
                "has to predict: leave it out"
            )
        if self.top == "embedding" and self.connections != "none":
            raise ValueError(
                f'model.top is "embedding", but model.connections "{self.connections}" join layers of one width: set '
                'one of them to "width" or "none"'
            )
        return self
