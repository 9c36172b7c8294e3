"""`[model.decoder]` with architecture = "recurrent", and the words that encoder and decoder share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import CellName, ModelTable, ScoreName
from harken.models.recurrent.cell_options import CellOptions


class RecurrentCellsConfig(ModelTable):
    """Cells and their wiring: all that an encoder has."""

    cell: CellName = Field("lstm", description="recurrent cell, or the name of a registered one")
    nonlinearity: Literal["tanh", "relu", "sigmoid"] = Field("tanh", description="rnn: what bends the new state")
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
        0.0, ge=0, lt=1, description="chance that a unit of the state skips a step (Krueger et al., 2017)"
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
    """Cells, their wiring, and how a decoder made of them looks at the source."""

    attention: Literal["none"] | ScoreName = Field(
        "additive", description="score of the decoder's attention; none: the last state is all the decoder gets"
    )
    attend: Literal["after", "before"] = Field(
        "after",
        description="look with the new state (Luong et al., 2015), or with the last one before the step, which then "
        "gets the context in place of input feeding (Bahdanau et al., 2015)",
    )
    look_from: Literal["top", "bottom"] = Field(
        "top", description="the decoder layer whose state looks; bottom as in deep stacks (Wu et al., 2016)"
    )
    context: Literal["initial", "constant"] = Field(
        "initial",
        description="without attention: the source gives the first state, or is also fed to every step",
    )
    context_to: Literal["first", "all"] = Field(
        "first", description="the decoder layers that are fed what the decoder saw of the source"
    )
    coverage: bool = Field(
        False, description="let the additive score see where it has looked so far (Tu et al., 2016; See et al., 2017)"
    )
    hard_attention: bool = Field(
        False, description="trained soft, but outside training look at the best source position alone"
    )
    input_feeding: bool = Field(
        True, description="feed the last attentional state to the next step (Luong et al., 2015)"
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
    """A recurrent decoder on any encoder."""

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
