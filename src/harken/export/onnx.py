"""Translators as ONNX: an encoder, a decoder step, tokenizers, and a JSON file that says how they belong together.

    encoder.onnx    source (B, S), lengths (B,)                   -> the memory, and the first state
    decoder.onnx    tokens (B,), lengths (B,), memory, state      -> logits (B, V), and the next state
    harken.json     the names of these tensors, the special tokens, the limits

`memory` stays the same for all steps. The state of a step has the names of `harken.json`, its next values the same
names with `next_` in front:

    outputs = encoder.run(None, {"source": ids, "lengths": lengths})
    tensors = dict(zip(memory + state, outputs))
    logits, *after = decoder.run(None, {"tokens": tokens, "lengths": lengths, **tensors})
    tensors |= dict(zip(state, after))

Supported are recurrent and Transformer encoders and decoders in every combination, and decoder-only Transformers, with
the exceptions of `onnx_recurrent.py` and `onnx_transformer.py`. Weights are float32.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import harken
from harken.data.tokenizers.base import save_tokenizers
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.errors import UserError
from harken.export import onnx_recurrent, onnx_transformer
from harken.export.graph import Graph, Memory
from harken.export.marks import marks_of
from harken.files import atomic_write
from harken.kernels.decoding.description import Linear, Recurrent, RecurrentStack, Stack, Undescribed
from harken.models.config import longest_of
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.description import describe_encoder, describe_recurrent
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.decoder_only import DecoderOnly
from harken.models.transformer.description import describe_stack
from harken.models.transformer.encoder import TransformerEncoder

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder.onnx", "harken.json"


def export_onnx(translator: Translator, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model has a part or an option that ONNX has no form for, or onnx is not installed.
    """
    model, encoder, decoder = translator.model, Graph(), Graph()
    try:
        if isinstance(model, DecoderOnly):
            stack = describe_stack(model.stack)
            memory, state = ["shift"], list(onnx_transformer.CACHES)
            onnx_transformer.write_decoder_only_encoder(encoder, model, stack)
            onnx_transformer.write_decoder_only_step(decoder, model, stack)
        else:
            memory, state = write_sides(encoder, decoder, model)
    except Undescribed as option:
        raise UserError(
            f"the export to ONNX has no form for {option}; train without it to export the model"
        ) from option
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
        **marks_of(translator)._asdict(),
        "never_written": [PAD, BOS],
        "longest": longest_of(translator.recipe.model) or onnx_transformer.LENGTH,
        "max_length": {"factor": search.max_length_factor, "extra": search.max_length_extra},
    }
    atomic_write(folder / DESCRIPTION, json.dumps(description, indent=1) + "\n")


def write_sides(encoder: Graph, decoder: Graph, model: Any) -> tuple[list[str], list[str]]:
    """Both graphs of an encoder-decoder; returns the names of the memory's and the state's tensors.

    Raises:
        Undescribed: one of the sides is not supported.
    """
    if not isinstance(model, EncoderDecoder):
        raise Undescribed(type(model).__name__)
    source, target = describe_side(model, model.encoder), describe_side(model, model.decoder)
    reader = onnx_transformer if isinstance(source, Stack) else onnx_recurrent
    writer = onnx_transformer if isinstance(target, Stack) else onnx_recurrent
    memory, state = write_encoder(encoder, model, reader, source, writer, target)
    write_decoder(decoder, model, writer, target, memory, state)
    return memory, state


def describe_side(model: EncoderDecoder, side: Any) -> Stack | RecurrentStack | Recurrent:
    """The description of the encoder or the decoder.

    Raises:
        Undescribed: ONNX has no form for it.
    """
    if isinstance(side, TransformerEncoder | TransformerDecoder):
        stack = describe_stack(side.stack)
        onnx_transformer.check(stack)
        return stack
    if isinstance(side, RecurrentEncoder):
        return describe_encoder(side)
    if isinstance(side, RecurrentDecoder):
        return describe_recurrent(model)
    raise Undescribed(type(side).__name__)


def _scale(side: Any) -> float:
    """The factor of the embeddings that an encoder or decoder reads."""
    stack = getattr(side, "stack", None)
    return float(getattr(stack, "embedding_scale", math.sqrt(side.embedding)))


def write_encoder(
    graph: Graph, model: EncoderDecoder, reader: Any, source: Any, writer: Any, target: Any
) -> tuple[list[str], list[str]]:
    """The graph from source ids to the first state; returns the names of the memory's and the state's tensors."""
    ids = graph.input("source", ["batch", "source"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    embedded = graph.embed(ids, model.source_embedding.weight, _scale(model.encoder))
    encoded = reader.encode(graph, source, embedded, lengths)
    if model.join is not None:
        join = Linear(model.join.weight, model.join.bias)
        states = encoded.states and [tuple(graph.linear(part, join) for part in parts) for parts in encoded.states]
        encoded = Memory(graph.linear(encoded.values, join), encoded.inside, states)
    memory, state = writer.start(graph, target, encoded)
    shapes = writer.shapes(target)
    for name, value in {**memory, **state}.items():
        graph.output(name, value, shapes[name])
    return list(memory), list(state)


def write_decoder(
    graph: Graph, model: EncoderDecoder, writer: Any, target: Any, memory: list[str], state: list[str]
) -> None:
    """The graph of one step."""
    tokens = graph.input("tokens", ["batch"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    shapes = writer.shapes(target)
    tensors = {name: graph.input(name, shapes[name]) for name in (*memory, *state)}
    embedded = graph.embed(tokens, model.target_embedding.weight, _scale(model.decoder))
    step = writer.step(graph, target, embedded, lengths, tensors, {name: tensors[name] for name in state})
    hidden = step.hidden
    if isinstance(model.narrow, nn.Linear):
        hidden = graph.linear(hidden, Linear(model.narrow.weight, model.narrow.bias))
    bias = [] if model.output_bias is None else [graph.constant(model.output_bias)]
    logits = graph.add("Gemm", hidden, graph.constant(model.output_weight), *bias, transB=1)
    graph.output("logits", logits, ["batch", model.output_weight.shape[0]])
    for name in state:
        shape = ["next_time" if size == "time" else size for size in shapes[name]]
        graph.output(f"next_{name}", step.state[name], shape)
