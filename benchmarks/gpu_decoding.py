"""Decoding on a GPU: harken's search as CUDA graphs against Hugging Face's `generate`, in one process.

    python -m benchmarks.gpu_decoding [--tools harken,transformers] [--recurrent] [--out FILE]
    python -m benchmarks.gpu_decoding --options [--batches 1,64,512] [--out FILE]

Both decode random sources of 32 words with random weights of one shape (6 + 6 layers, 512 wide, 2,048 in the
feed-forward layers, 8 heads, 32,000 tokens) in bfloat16, and both write 32 tokens for every source, which neither can
end earlier. Encoding, and for harken also the hypotheses as Python lists, are part of the time. The median of the
rounds, after two calls that are not counted; tokens/s are those of the best hypothesis of each source.

--recurrent compares the search of a bidirectional LSTM with additive attention and input feeding (one layer, 512 wide,
embeddings of 256, 8,000 tokens) as CUDA graphs with the reference search, operator by operator, of the same model in
the same precision.

--options runs every option of the search beside plain search with the same beam, of the same Transformer in bfloat16,
and prints its share of the speed of plain search. Sources and outputs have 32 tokens, as above.
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


OPTIONS: dict[str, dict[str, Any]] = {  # of `SearchOptions`, but for what `option_call` reads
    "greedy": {"beam": 1},
    "greedy, no_repeat_ngram = 3": {"beam": 1, "no_repeat_ngram": 3},
    "greedy, streaming": {"beam": 1, "stream": True},
    "sampling": {"beam": 1, "sample": True},
    "sampling, temperature = 0.7": {"beam": 1, "sample": True, "temperature": 0.7},
    "sampling, top_k = 20": {"beam": 1, "sample": True, "top_k": 20},
    "sampling, top_p = 0.9": {"beam": 1, "sample": True, "top_p": 0.9},
    "sampling, min_p = 0.1": {"beam": 1, "sample": True, "min_p": 0.1},
    "sampling, top_p = 0.9, no_repeat_ngram = 3": {"beam": 1, "sample": True, "top_p": 0.9, "no_repeat_ngram": 3},
    "beam 5": {"beam": 5},
    "no_repeat_ngram = 3": {"beam": 5, "no_repeat_ngram": 3},
    "repetition_penalty = 1.2": {"beam": 5, "repetition_penalty": 1.2},
    "unknown_penalty = 5": {"beam": 5, "unknown_penalty": 5.0},
    "min_length = 5": {"beam": 5, "min_length": 5},
    "coverage_penalty = 0.2": {"beam": 5, "coverage_penalty": 0.2},
    "word_reward = 0.1": {"beam": 5, "word_reward": 0.1},
    'length_rule = "gnmt"': {"beam": 5, "length_rule": "gnmt"},
    'stopping = "first"': {"beam": 5, "stopping": "first"},
    "patience = 2": {"beam": 5, "stopping": "count", "patience": 2.0},
    "time_limit = 60": {"beam": 5, "time_limit": 60.0},
    "diversity_groups = 5": {"beam": 5, "diversity_groups": 5},
    "banned, 20 phrases": {"beam": 5, "banned": 20},
    "shortlist": {"beam": 5, "shortlist": True},
    "first token": {"beam": 5, "first": True},
    "forced prefix": {"beam": 5, "prefix": None},
    "preferred prefix": {"beam": 5, "prefix": 0.5},
    "required phrase": {"beam": 5, "phrases": True},
    "n-best of 5": {"beam": 5, "nbest": 5},
    "streaming": {"beam": 5, "stream": True},
    "five rules at once": {"beam": 5, "no_repeat_ngram": 3, "repetition_penalty": 1.2, "unknown_penalty": 5.0,
                           "coverage_penalty": 0.2, "word_reward": 0.1},
    "two models": {"beam": 5, "models": 2},
    "language model": {"beam": 5, "language_model": True},
}  # fmt: skip


def option_call(model: Any, second: Any, language: Any, batch: int, given: dict[str, Any]) -> Any:
    """The call of one entry of `OPTIONS`, and the longest output that none ends before."""
    from harken.search.config import SearchOptions
    from harken.search.dispatch import DecodingCall
    from harken.search.ensemble import Ensemble
    from harken.search.rules.constraints import Constraints
    from harken.search.rules.fusion import LanguageModelFusion
    from harken.search.rules.penalties import Banned, Shortlist
    from harken.search.rules.prefix import ForcedFirst, Prefix
    from harken.search.streaming import CertainPrefix

    options, random, rules = dict(given), torch.Generator().manual_seed(batch), list[Any]()
    source = torch.randint(4, VOCABULARY, (batch, WORDS), generator=random).cuda()
    phrases = torch.randint(4, VOCABULARY, (20, 2), generator=random).tolist()
    if options.pop("banned", 0):
        rules.append(Banned(phrases))
    if options.pop("first", False):
        rules.append(ForcedFirst(7))
    if "prefix" in options:
        rules.append(Prefix([phrases[0]] * batch, options.pop("prefix")))
    if options.pop("phrases", False):
        rules.append(Constraints([[[phrases[0]]]] * batch))
    if options.pop("language_model", False):
        rules.append(LanguageModelFusion(language, language.start(batch), 0.2))
    if options.pop("shortlist", False):
        rules.append(Shortlist(torch.rand(batch, VOCABULARY, generator=random) < 0.1))
    if options.pop("models", 1) > 1:
        model = Ensemble([model, second])
    observe = CertainPrefix(lambda tokens: None) if options.pop("stream", False) else None
    nbest, search = options.pop("nbest", 1), SearchOptions(**options, precision="auto")
    lengths = torch.full((batch,), WORDS, device="cuda")
    return DecodingCall(model, source, lengths, LENGTH, search, nbest, rules=tuple(rules), observe=observe)


def option_rows(rounds: int, batches: list[int], record: Record) -> None:
    """A row for each option: its tokens/s, and their share of those of plain search with the same beam."""
    from harken.data.tokenizers.tokens import EOS
    from harken.kernels.weights import freeze
    from harken.models.recurrent.config import RecurrentLanguageConfig
    from harken.models.recurrent.language import RecurrentLanguage
    from harken.search.dispatch import decode
    from harken.search.graphs import release_searches, why_not_graphs

    model, second = harken_model(), harken_model()
    language = RecurrentLanguage(RecurrentLanguageConfig(width=512, embedding=512, layers=1), VOCABULARY).eval().cuda()
    with torch.no_grad():
        language.output_bias[EOS] = -1e4
    for part in (model, second, language):
        freeze(part)
    for batch in batches:
        plain: dict[int, float] = {}
        for name, given in OPTIONS.items():
            if batch > 1 and "streaming" in name:
                continue
            call = option_call(model, second, language, batch, given)
            row: dict[str, Any] = {"batch": batch, "option": name}
            if reason := why_not_graphs(call):
                record.add(row | {"reference": reason})
                continue
            try:
                took = seconds(lambda call=call: decode(call), rounds)
            except Exception as error:  # the other options are still measured
                record.add(row | {"error": f"{type(error).__name__}: {error}"[:300]})
                continue
            short = sum(len(hypotheses[0].tokens) < LENGTH for hypotheses in decode(call))
            # an ensemble computes as many decoders in every step
            base = plain.setdefault(given["beam"], took) * given.get("models", 1)
            row |= {"tokens/s": round(batch * LENGTH / took), "share of plain": round(base / took, 2)}
            record.add(row | ({"ended early": short} if short else {}))
        release_searches(model)


def main() -> None:
    """Measure all cells and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", default="harken,transformers")
    parser.add_argument("--recurrent", action="store_true", help="also a recurrent model beside the reference search")
    parser.add_argument("--options", action="store_true", help="each option of the search beside plain search")
    parser.add_argument("--batches", default="1,64,512", help="of --options")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.options:
        batches = [int(batch) for batch in given.batches.split(",")]
        shape = f"{LAYERS} + {LAYERS} layers of width {WIDTH}, {VOCABULARY:,} tokens, bfloat16, {LENGTH} tokens written"
        option_rows(given.rounds, batches, Record("gpu-decoding-options", given.out, shape=shape))
        return
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
