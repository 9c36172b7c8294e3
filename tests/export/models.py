"""Small translators with random weights for the tests of exports."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import harken
from harken.data.tokenizers.base import save_tokenizers, train_tokenizers
from harken.data.tokenizers.tokens import EOS
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.translate.translator import Translator
from harken.training.weights import save_tensors

ENGLISH = ["the black cat sleeps", "a dog sees the old house", "the bird and the cat", "does the dog eat?", "yes"]
FRENCH = ["le chat noir dort", "un chien voit la vieille maison", "l'oiseau et le chat", "le chien mange-t-il ?", "oui"]
SMALL = ["model.dropout=0.0", "search.max_length_factor=1.0", "search.max_length_extra=6"]
TRANSFORMER = [
    *("phrasebook-transformer", "model.layers=2", "model.width=16", "model.heads=2", "model.feedforward=24"),
    *("tokenizer.kind=bpe", "tokenizer.size=60", "tokenizer.joint=true"),
]
DECODER_ONLY = [*TRANSFORMER, "model.architecture=decoder-only"]
RECURRENT = ["phrasebook-attention", "model.width=12", "model.embedding=8"]


def make_model(folder: Path, base: list[str], *overrides: str) -> Translator:
    """A model folder, loaded; weights are large enough for clear decisions, and biases are not zero."""
    recipe = load_recipe(base[0], [*base[1:], *SMALL, *overrides])
    source, target = train_tokenizers(recipe.tokenizer, ENGLISH * 3, FRENCH * 3)
    folder.mkdir()
    save_tokenizers(folder, source, target)
    torch.manual_seed(4)
    model = build_model(recipe.model, source.size, target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.add_(0.2 * torch.randn_like(parameter))
            else:
                parameter.mul_(2.0)
        stack = getattr(getattr(model, "decoder", model), "stack", None)
        if stack is not None and hasattr(stack.blocks[-1].feedforward_norm, "bias"):  # EOS likelier: lengths differ
            norm = stack.norm if isinstance(stack.norm, nn.LayerNorm) else stack.blocks[-1].feedforward_norm
            norm.bias.add_(model.output_weight[EOS] if model.narrow(norm.bias) is norm.bias else 0)
    save_tensors(folder / "model.safetensors", dict(model.named_parameters()))
    (folder / "recipe.toml").write_text(recipe.to_toml())
    loaded = harken.load(folder, device="cpu")
    loaded.threads.count = 1
    return loaded


def run_onnx(folder: Path, about: dict[str, Any], ids: list[int], most: int) -> list[int]:
    """Greedy search over an exported model as docs/export.md has it."""
    import onnxruntime

    encoder, decoder = (onnxruntime.InferenceSession(folder / about[name]) for name in ("encoder", "decoder"))
    source = np.array([[*ids, EOS]])
    lengths = np.array([source.shape[1]])
    names = about["memory"] + about["state"]
    tensors = dict(zip(names, encoder.run(None, {"source": source, "lengths": lengths}), strict=True))
    tokens, written = np.array([about["tokens"]["bos"]]), []
    for step in range(most):
        logits, *after = decoder.run(None, {"tokens": tokens, "lengths": lengths, **tensors})
        tensors |= dict(zip(about["state"], after, strict=True))
        logits[:, about["never_written"]] = -np.inf
        forced = about["target_prefix"][step : step + 1]
        tokens = np.array(forced) if forced else logits.argmax(-1)
        if tokens[0] == EOS:
            break
        written.append(int(tokens[0]))
    return written
