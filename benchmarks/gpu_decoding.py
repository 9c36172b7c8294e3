"""Decoding on a GPU: harken's search as CUDA graphs against Hugging Face's `generate`, in one process.

    python -m benchmarks.gpu_decoding [--tools harken,transformers] [--recurrent] [--out FILE]

Both decode random sources of 32 words with random weights of one shape (6 + 6 layers, 512 wide, 2,048 in the
feed-forward layers, 8 heads, 32,000 tokens) in bfloat16, and both write 32 tokens for every source, which neither can
end earlier. Encoding, and for harken also the hypotheses as Python lists, are part of the time. The median of the
rounds, after two calls that are not counted; tokens/s are those of the best hypothesis of each source.

--recurrent compares the search of a bidirectional LSTM with additive attention and input feeding (one layer, 512 wide,
embeddings of 256, 8,000 tokens) as CUDA graphs with the reference search, operator by operator, of the same model in
the same precision.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu_timing import Record, milliseconds

VOCABULARY, WIDTH, LAYERS, HEADS, INNER, WORDS, LENGTH = 32_000, 512, 6, 8, 2048, 32, 32
CELLS = ((1, 1), (1, 5), (64, 1), (64, 5), (512, 1), (512, 5))


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median of some calls, after two that are not counted."""
    return milliseconds(work, 0.0, rounds) / 1e3


def make_harken(source: torch.Tensor, beam: int, model: Any) -> Callable[[], Any]:
    """A call of the search; EOS is never chosen, since its row of the output matrix is far below the others."""
    from harken.search.config import SearchOptions
    from harken.search.dispatch import DecodingCall, choose, decode

    lengths = torch.full((len(source),), WORDS, device="cuda")
    call = DecodingCall(model, source, lengths, LENGTH, SearchOptions(beam=beam, precision="auto"))
    if (name := choose(call).name) != "graphs":
        raise RuntimeError(f"the backend is {name}")

    def run() -> Any:
        hypotheses = decode(call)
        if any(len(row[0].tokens) != LENGTH for row in hypotheses):
            raise RuntimeError("a hypothesis ended early")
        return hypotheses

    return run


def harken_model() -> Any:
    """A base Transformer with random weights."""
    from harken.data.tokenizers.tokens import EOS
    from harken.models.build import build_model
    from harken.models.config import TransformerConfig

    torch.manual_seed(0)
    sizes = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "feedforward": INNER}
    model = build_model(TransformerConfig(**sizes, tied="none"), VOCABULARY, VOCABULARY).eval().cuda()
    with torch.no_grad():  # the last norm's bias points away from EOS, which is then never chosen
        model.output_weight[EOS] = 0.5
        model.decoder.stack.norm.bias.fill_(-1.0)
    return model


def transformers_model() -> Any:
    """Marian's architecture of the same shape."""
    import transformers

    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.MarianMTModel(config).to("cuda", torch.bfloat16).eval()


def make_transformers(source: torch.Tensor, beam: int, model: Any) -> Callable[[], Any]:
    """A call of `generate`."""
    options = {"num_beams": beam, "do_sample": False, "min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
    return lambda: model.generate(source, attention_mask=torch.ones_like(source), **options)


def recurrent_rows(rounds: int, record: Record) -> None:
    """Graphs against the reference."""
    from harken.data.tokenizers.tokens import EOS
    from harken.models.build import build_model
    from harken.models.config import RecurrentConfig
    from harken.search.config import SearchOptions
    from harken.search.dispatch import DecodingCall, choose, decode, run_reference

    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        model = build_model(RecurrentConfig(), 8000, 8000).eval().to("cuda", dtype)
        with torch.no_grad():
            model.output_bias[EOS] = -1e4
        for batch, beam in CELLS[:4]:
            source = torch.randint(4, 8000, (batch, WORDS), device="cuda")
            lengths = torch.full((batch,), WORDS, device="cuda")
            call = DecodingCall(model, source, lengths, LENGTH, SearchOptions(beam=beam))
            if (name := choose(call).name) != "graphs":
                raise RuntimeError(f"the backend is {name}")
            graphs, eager = (
                seconds(lambda call=call: decode(call), rounds),
                seconds(lambda call=call: run_reference(call), 3),
            )
            row = {"model": "recurrent", "dtype": str(dtype).partition(".")[2], "batch": batch, "beam": beam}
            row |= {"harken tokens/s": round(batch * LENGTH / graphs), "eager tokens/s": round(batch * LENGTH / eager)}
            record.add(row | {"ratio": round(eager / graphs, 1)})


def main() -> None:
    """Measure all cells and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", default="harken,transformers")
    parser.add_argument("--recurrent", action="store_true", help="also a recurrent model beside the reference search")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tools = given.tools.split(",")
    makers = {"harken": (harken_model, make_harken), "transformers": (transformers_model, make_transformers)}
    models = {tool: makers[tool][0]() for tool in tools}
    record = Record("gpu-decoding", given.out)
    if given.recurrent:
        recurrent_rows(given.rounds, record)
    for batch, beam in CELLS:
        source = torch.randint(4, VOCABULARY, (batch, WORDS), device="cuda")
        row: dict[str, Any] = {"batch": batch, "beam": beam}
        for tool in tools:
            took = seconds(makers[tool][1](source, beam, models[tool]), given.rounds)
            row[f"{tool} tokens/s"] = round(batch * LENGTH / took)
        if len(tools) == 2:
            row["ratio"] = round(row["harken tokens/s"] / row["transformers tokens/s"], 1)
        record.add(row)


if __name__ == "__main__":
    main()
