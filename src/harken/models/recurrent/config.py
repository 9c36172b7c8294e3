"""Configs of recurrent encoders, decoders and language models: each is the argument of its class.

>>> RecurrentDecoderConfig(width=8).cell_arguments
{'layer_norm': False, 'peephole': None, 'coupled': False}
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import START, TIED_OUTPUT, ModelTable

CELL_OPTIONS = {  # the cell that has the option, and its default
    "nonlinearity": ("rnn", "tanh"),
    "peephole": ("lstm", "none"),
    "coupled": ("lstm", False),
    "forget_bias": ("lstm", 1.0),
    "reset": ("gru", "after"),
}


class RecurrentCellsConfig(ModelTable):
    """Cells and the connections between layers, which encoders, decoders and language models share."""

    cell: Literal["rnn", "lstm", "gru"] = Field("lstm", description="recurrent cell")
    nonlinearity: Literal["tanh", "relu", "sigmoid"] = Field("tanh", description="rnn: activation of the new state")
    peephole: Literal["none", "diagonal", "full"] = Field(
        "none", description="lstm: gates see the cell state, through one weight a unit or a matrix"
    )
    coupled: bool = Field(False, description="lstm: forget only where something is written")
    forget_bias: float = Field(1.0, description="lstm: first bias of the forget gates; 1 starts them open")
    reset: Literal["after", "before"] = Field(
        "after", description="gru: reset after the product, as PyTorch has it, or before it"
    )
    layer_norm: bool = Field(False, description="normalise inside the cells, gate by gate (Ba et al., 2016)")
    zoneout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a unit keeps its old state at a step (Krueger et al., 2017)",
    )
    recurrent_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of the last state zeroed, the same at all steps (Gal and Ghahramani, 2016)"
    )
    layers: int = Field(1, ge=1, description="stacked layers in the encoder and in the decoder")
    connections: Literal["none", "residual", "highway", "dense"] = Field(
        "none", description="how a layer is joined to those below it"
    )
    connections_from: int = Field(
        2, ge=2, description="the first layer, counted from 1, that has such connections; 3 as in Wu et al. (2016)"
    )
    embedding: int = Field(256, ge=1, description="width of word embeddings")
    width: int = Field(
        512, ge=2, description="H, state of the decoder; a bidirectional encoder has half of it each way"
    )
    dropout: float = Field(
        0.2, ge=0, lt=1, description="share zeroed on embeddings, between layers and before the output"
    )
    variational: bool = Field(
        True, description="one dropout mask for all steps of a sentence (Gal and Ghahramani, 2016)"
    )

    @property
    def parts(self) -> int:
        """Vectors in the state of a layer: h, and c of an LSTM."""
        return 2 if self.cell == "lstm" else 1

    @property
    def cell_arguments(self) -> dict[str, Any]:
        """What the class of the cell takes beside its sizes."""
        own: dict[str, dict[str, Any]] = {
            "rnn": {"nonlinearity": self.nonlinearity},
            "lstm": {"peephole": None if self.peephole == "none" else self.peephole, "coupled": self.coupled},
            "gru": {"reset": self.reset},
        }
        return {"layer_norm": self.layer_norm, **own[self.cell]}

    @model_validator(mode="after")
    def _options_fit_the_cell(self) -> RecurrentCellsConfig:
        for key, (cell, default) in CELL_OPTIONS.items():
            value = getattr(self, key)
            if value != default and self.cell != cell:
                found = f'"{value}"' if isinstance(value, str) else str(value).lower()
                raise ValueError(
                    f'{key} = {found} is an option of cell = "{cell}", not of "{self.cell}"; choose that cell, or '
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
    start: str | None = Field(None, description=START)
    bidirectional: bool | Literal["first"] = Field(
        True, description="read in both directions, in every layer or in the first alone"
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

    attention: Literal["none", "dot", "scaled", "multiplicative", "additive", "cosine"] = Field(
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
        description="without attention: the source gives the first state, or is also fed to every step",
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
        True, description="feed the last attentional state to the next step (Luong et al., 2015)"
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
    """A recurrent decoder on any encoder."""

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
    """Recurrent layers that read from left to right, with the regularisation of Merity et al. (2018)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool = Field(False, description="always false: the second direction would see what is predicted")
    top: Literal["width", "embedding"] = Field(
        "width", description="how wide the last layer is: as the others, or as the embedding it may be tied to"
    )
    dropout_between: float | None = Field(
        None, ge=0, lt=1, description="share zeroed between layers, where it differs from `dropout`"
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of the words whose embedding is zeroed in a batch")
    weight_drop: float = Field(
        0.0, ge=0, lt=1, description="share of the recurrent weights zeroed in a batch (Merity et al., 2018)"
    )
    activation_penalty: float = Field(
        0.0, ge=0, description="weight in the loss of the mean square of the top layer's states"
    )
    temporal_penalty: float = Field(
        0.0, ge=0, description="weight in the loss of how much those states change from step to step"
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
