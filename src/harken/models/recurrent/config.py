"""`[model.decoder]` with architecture = "recurrent", and the words that encoder and decoder share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import CellName, ModelTable, ScoreName
from harken.models.recurrent.cell_options import CellOptions


class RecurrentCellsConfig(ModelTable):
    """Recurrent cells and their connections: the keys of an encoder."""

    cell: CellName = Field("lstm", description="recurrent cell, or the name of a registered one")
    nonlinearity: Literal["tanh", "relu", "sigmoid"] = Field("tanh", description="rnn: activation function")
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
        0.0, ge=0, lt=1, description="probability that a unit keeps its previous state (Krueger et al., 2017)"
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
    def cell_options(self) -> CellOptions:
        """The words about the cell."""
        return CellOptions(**{field.name: getattr(self, field.name) for field in fields(CellOptions)})

    @model_validator(mode="after")
    def _cells_fit(self) -> RecurrentCellsConfig:
        _ = self.cell_options
        if self.connections == "none" and self.connections_from != 2:
            raise ValueError(
                'model.connections_from says where connections begin, but model.connections is "none"; '
                'choose "residual", "highway" or "dense"'
            )
        return self


class RecurrentStackConfig(RecurrentCellsConfig):
    """Recurrent cells, their connections, and the decoder's attention."""

    attention: Literal["none"] | ScoreName = Field(
        "additive",
        description="score function of the decoder's attention; none: the decoder sees the last encoder state only",
    )
    attend: Literal["after", "before"] = Field(
        "after",
        description=(
            "attend with the new state after the step (Luong et al., 2015), or with the previous state "
            "before it, in place of input feeding (Bahdanau et al., 2015)"
        ),
    )
    look_from: Literal["top", "bottom"] = Field(
        "top", description="decoder layer whose state is the query; bottom in deep stacks (Wu et al., 2016)"
    )
    context: Literal["initial", "constant"] = Field(
        "initial",
        description="without attention: the source initialises the state, or is also an input of every step",
    )
    context_to: Literal["first", "all"] = Field("first", description="decoder layers that receive the context vector")
    coverage: bool = Field(
        False,
        description=(
            "coverage: add the accumulated attention to the additive score (Tu et al., 2016; See et al., 2017)"
        ),
    )
    hard_attention: bool = Field(
        False, description="hard attention outside training: attend to the best source position only"
    )
    input_feeding: bool = Field(
        True, description="input feeding: the attentional state is an input of the next step (Luong et al., 2015)"
    )

    @model_validator(mode="after")
    def _words_fit(self) -> RecurrentStackConfig:
        attends = self.attention != "none"
        if self.coverage and self.attention != "additive":
            raise ValueError(
                f'model.coverage is an input of the additive score, but model.attention is "{self.attention}"; '
                'set model.attention = "additive", or coverage = false'
            )
        looking = {"attend": "after", "hard_attention": False, "look_from": "top"}
        for key, usual in looking.items():
            if not attends and getattr(self, key) != usual:
                raise ValueError(
                    f'model.{key} says how to look at the source, but model.attention is "none"; name a score'
                )
        if attends and self.context == "constant":
            raise ValueError(
                f'model.context = "constant" feeds the same to every step, but model.attention = "{self.attention}" '
                'makes a context for each; set model.attention = "none", or context = "initial"'
            )
        fed = self.attend == "before" or self.input_feeding if attends else self.context == "constant"
        if self.context_to == "all" and not fed:
            wanted = "set model.input_feeding = true" if attends else 'set model.context = "constant"'
            raise ValueError(f'model.context_to = "all" says which layers are fed, but nothing is; {wanted}')
        return self


class RecurrentDecoderConfig(RecurrentStackConfig):
    """Recurrent decoder for any encoder."""

    architecture: Literal["recurrent"] = "recurrent"

    @model_validator(mode="before")
    @classmethod
    def _reads_one_way(cls, values: Any) -> Any:
        """Say why there is no such key, in place of that there is none."""
        if isinstance(values, dict) and values.get("bidirectional"):
            raise ValueError(
                "model.decoder.bidirectional is set, but a decoder writes from left to right: a second direction would "
                "see the words it has to predict; remove the key"
            )
        return values
