"""Recurrent encoder-decoder, with attention or without, from a plain RNN to a deep residual stack.

h_1 .. h_S = encoder(x)      `harken.models.recurrent.encoder`
s_t, c_t, a_t                `harken.models.recurrent.decoder`

Sutskever et al. (2014), Bahdanau et al. (2015), Luong et al. (2015). A deep stack as in Wu et al. (2016) is a matter of
words:

>>> words = {"bidirectional": "first", "connections": "residual", "connections_from": 3}
>>> words |= {"attend": "before", "look_from": "bottom", "context_to": "all"}
>>> deep = Seq2Seq(20, 20, layers=4, embedding=8, width=8, **words)
>>> len(deep.encoder.layers), len(deep.decoder.layers)
(4, 4)
"""

from __future__ import annotations

from typing import Any

from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.cell_options import CellOptions
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder


class Seq2Seq(EncoderDecoder):
    """See the module's text; keyword arguments are those of `RecurrentConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        cell: str = "lstm",
        attention: str = "additive",
        attend: str = "after",
        look_from: str = "top",
        context: str = "initial",
        context_to: str = "first",
        coverage: bool = False,
        hard_attention: bool = False,
        layers: int = 1,
        embedding: int = 256,
        width: int = 512,
        bidirectional: bool | str = True,
        input_feeding: bool = True,
        connections: str = "none",
        connections_from: int = 2,
        dropout: float = 0.2,
        variational: bool = True,
        tied: str = "all",
        **cell_options: Any,
    ) -> None:
        both: dict[str, Any] = {
            "embedding": embedding,
            "width": width,
            "layers": layers,
            "cell": CellOptions(cell, **cell_options),
            "connections": connections,
            "connections_from": connections_from,
            "dropout": dropout,
            "variational": variational,
        }
        decoder = RecurrentDecoder(
            attention=attention,
            attend=attend,
            look_from=look_from,
            context=context,
            context_to=context_to,
            coverage=coverage,
            hard_attention=hard_attention,
            input_feeding=input_feeding,
            **both,
        )
        super().__init__(source_size, target_size, RecurrentEncoder(bidirectional=bidirectional, **both), decoder, tied)
