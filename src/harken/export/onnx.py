"""Translators as ONNX: an encoder, a decoder step, tokenizers, and a JSON file that says how they belong together.

    encoder.onnx    source (B, S), lengths (B,)                   -> the memory, and the first state
    decoder.onnx    tokens (B,), lengths (B,), memory, state      -> logits (B, V), and the next state
    harken.json     the names of these tensors, the special tokens, the limits

`memory` stays the same for all steps. The state of a step has the names of `harken.json`, its next values the same
names with `next_` in front:

    found = encoder.run(None, {"source": ids, "lengths": lengths})
    tensors = dict(zip(memory + state, found))
    logits, *after = decoder.run(None, {"tokens": tokens, "lengths": lengths, **tensors})
    tensors |= dict(zip(state, after))

Supported are recurrent and Transformer encoders and decoders in every combination, and decoder-only Transformers, with
the exceptions of `onnx_recurrent.py` and `onnx_transformer.py`. Weights are float32.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

import harken
from harken.data.tokenizers.base import save_tokenizers
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.errors import UserError
from harken.export import onnx_decoder_only, onnx_recurrent, onnx_transformer
from harken.export.graph import Graph
from harken.files import atomic_write
from harken.models.config import longest_of
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.decoder_only import DecoderOnly
from harken.models.transformer.encoder import TransformerEncoder

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder.onnx", "harken.json"
ENCODERS: dict[type, ModuleType] = {TransformerEncoder: onnx_transformer, RecurrentEncoder: onnx_recurrent}
DECODERS: dict[type, ModuleType] = {TransformerDecoder: onnx_transformer, RecurrentDecoder: onnx_recurrent}


def export_onnx(translator: Translator, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model has a part or an option that ONNX has no form for, or onnx is not installed.
    """
    model, encoder, decoder = translator.model, Graph(), Graph()
    if isinstance(model, DecoderOnly):
        onnx_decoder_only.refuse(model)
        memory, state = onnx_decoder_only.MEMORY, onnx_decoder_only.STATE
        onnx_decoder_only.write_encoder(encoder, model)
        onnx_decoder_only.write_decoder(decoder, model)
    else:
        reading, writing = parts_of(model)
        assert isinstance(model, EncoderDecoder)
        memory, state = write_encoder(encoder, model, reading, writing)
        write_decoder(decoder, model, writing, memory, state)
    encoder.save(folder / ENCODER)
    decoder.save(folder / DECODER)
    save_tokenizers(folder, translator.source, translator.target)
    search = translator.recipe.search
    description = {
        "harken": harken.__version__,
        "encoder": ENCODER,
        "decoder": DECODER,
        "memory": memory,
        "state": state,
        "tokens": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        "never_written": [PAD, BOS],
        "longest": longest_of(translator.recipe.model) or onnx_transformer.LENGTH,
        "max_length": {"factor": search.max_length_factor, "extra": search.max_length_extra},
    }
    atomic_write(folder / DESCRIPTION, json.dumps(description, indent=1) + "\n")


def parts_of(model: Any) -> tuple[ModuleType, ModuleType]:
    """The modules that write the encoder and the decoder of a model, which they support.

    Raises:
        UserError: one of them is not supported.
    """
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    for side, known in ((encoder, ENCODERS), (decoder, DECODERS)):
        if type(side) not in known:
            kind = type(model if side is None else side).__name__
            raise UserError(f"the export to ONNX has no form for {kind}; it takes recurrent models and Transformers")
        known[type(side)].refuse_unsupported(side if known[type(side)] is onnx_recurrent else side.stack)  # type: ignore[union-attr]
    return ENCODERS[type(encoder)], DECODERS[type(decoder)]


def write_encoder(
    graph: Graph, model: EncoderDecoder, reading: ModuleType, writing: ModuleType
) -> tuple[list[str], list[str]]:
    """The graph from source ids to the first state; returns the names of the memory's and the state's tensors."""
    source = graph.input("source", ["batch", "source"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    embedded = graph.embed(source, model.source_embedding, math.sqrt(model.encoder.embedding))
    found = reading.encode(graph, model.encoder, embedded, lengths)
    if model.join is not None:
        states = found.states and [tuple(graph.apply(model.join, part) for part in parts) for parts in found.states]
        found = type(found)(graph.apply(model.join, found.values), found.inside, states)
    memory, state = writing.start(graph, model.decoder, found)
    shapes = writing.shapes(model.decoder)
    for name, value in {**memory, **state}.items():
        graph.output(name, value, shapes[name])
    return list(memory), list(state)


def write_decoder(
    graph: Graph, model: EncoderDecoder, writing: ModuleType, memory: list[str], state: list[str]
) -> None:
    """The graph of one step."""
    tokens = graph.input("tokens", ["batch"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    shapes = writing.shapes(model.decoder)
    given = {name: graph.input(name, shapes[name]) for name in (*memory, *state)}
    embedded = graph.embed(tokens, model.target_embedding, math.sqrt(model.decoder.embedding))
    step = writing.step(graph, model.decoder, embedded, lengths, given, {name: given[name] for name in state})
    hidden = graph.apply(model.narrow, step.hidden)
    bias = [] if model.output_bias is None else [graph.constant(model.output_bias)]
    logits = graph.add("Gemm", hidden, graph.constant(model.output_weight), *bias, transB=1)
    graph.output("logits", logits, ["batch", model.output_weight.shape[0]])
    for name in state:
        shape = ["next_time" if size == "time" else size for size in shapes[name]]
        graph.output(f"next_{name}", step.state[name], shape)
