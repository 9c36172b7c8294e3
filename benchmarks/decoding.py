"""Decoding on one CPU core: harken beside CTranslate2, Hugging Face's generate and JoeyNMT in one run.

    python benchmarks/decoding.py --peer-python PYTHON              # all shapes, float32 and int8; ctranslate2 alone
    python benchmarks/decoding.py --peer-python PYTHON --tools ctranslate2,transformers --shapes small --rounds 5
    python benchmarks/decoding.py --peer-python PYTHON --tools ctranslate2,transformers --shapes opus
    python benchmarks/decoding.py --joey-python PYTHON --shapes lstm,gru          # a venv with joeynmt 2.3
    python benchmarks/decoding.py --options --shapes small,lstm                   # each option beside plain search

small = 3 + 3 layers, width 256, inner width 1024, 4 heads, 8,000 tokens; base = 6 + 6, 512, 2048, 8, 32,000; norm
first. opus = OPUS-MT's, a Marian model of 6 + 6, 512, 2048, 8, 58,101 with random weights, which `harken adopt`,
CTranslate2's converter and `generate` read from one folder (opus-small is for trials). lstm and gru = a bidirectional
encoder and a decoder of one layer, width 512, embeddings of 256, additive attention with input feeding, 8,000 tokens,
beside JoeyNMT, which is always in float32. A shape whose peer is not installed is skipped. Weights are random and the
same in harken, CTranslate2 and JoeyNMT (but for the first cell state of the LSTM, which JoeyNMT computes in another
way), with an output layer of its own; sources have 4 to 30 tokens, as Multi30k's. Random weights never stop on their
own, so every output is forced to 20 tokens. Tokens per second count the kept hypotheses, the encoder included.

The tools take turns and each cell is the best of all rounds, since other processes may use the machine: `ratio`
compares wall time, `cpu ratio` the CPU seconds of the two processes, the better guide on a busy machine. `same` is the
share of tokens that harken and the peer agree on.

With --options every option of the search runs beside plain search with the same beam, on batches of 1 and 64, in CPU
seconds of the call, best of all rounds. The language model is recurrent, of width 256, and runs on torch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import records
import torch
from records import RECORDS, facts_of, machine, rows_table

from harken.kernels.decoding.description import Recurrent, Transformer
from harken.kernels.weights import freeze
from harken.models.build import build_language, build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.config import RecurrentLanguageConfig
from harken.nn.positions.absolute import sinusoids
from harken.search.compiled import KERNELS
from harken.search.config import SearchOptions
from harken.search.dispatch import COMPILED, DecodingCall, choose, run_reference
from harken.search.ensemble import Ensemble
from harken.search.rules.constraints import Constraints
from harken.search.rules.fusion import LanguageModelFusion
from harken.search.rules.penalties import Banned
from harken.search.rules.prefix import Prefix
from harken.search.streaming import CertainPrefix

SHAPES = {"small": (3, 256, 1024, 4, 8000), "base": (6, 512, 2048, 8, 32000)}  # layers, width, inner, heads, vocabulary
MARIAN = {"opus": (6, 512, 2048, 8, 58101), "opus-small": (2, 64, 128, 4, 600)}
RECURRENT = {"lstm": (512, 256, 8000), "gru": (512, 256, 8000)}  # width, embedding, vocabulary
LENGTH = 20
CELLS = [(1, 1), (1, 5), (64, 1), (64, 5)]  # batch, beam
SPREAD = 3.0  # of the random weights of Marian, in units of 1 / sqrt(inputs)
MARIAN_CELLS = [(1, 1), (1, 6), (64, 1), (64, 6)]  # OPUS-MT models search with a beam of 4 to 6
SENTENCES = {"small": {1: 20, 64: 256}, "base": {1: 8, 64: 64}, "lstm": {1: 20, 64: 128}, "gru": {1: 20, 64: 128}}
SENTENCES |= {"opus": {1: 8, 64: 64}, "opus-small": {1: 8, 64: 64}}
WARM_UP = 8  # sentences that are not timed, before each run
AIMS = {1: 1.3, 64: 1.2}
JOEY_AIM = 5  # at batch 64, beam 5


def peer_weights(model: EncoderDecoder, width: int) -> dict[str, np.ndarray]:
    """The weights by the names of CTranslate2's specification."""
    weights: dict[str, Any] = {}

    def linear(name: str, weight: Any, bias: Any) -> None:
        weights[f"{name}/weight"], weights[f"{name}/bias"] = weight, bias

    def norm(name: str, layer: Any) -> None:
        weights[f"{name}/gamma"], weights[f"{name}/beta"] = layer.weight, layer.bias

    for side, stack in (("encoder", model.encoder.stack), ("decoder", model.decoder.stack)):
        for number, block in enumerate(stack.blocks):
            name = f"{side}/layer_{number}"
            maps = {
                "self_attention/linear_0": block.attention.query_key_value,
                "self_attention/linear_1": block.attention.output,
                "ffn/linear_0": block.feedforward.expand,
                "ffn/linear_1": block.feedforward.contract,
            }
            norms = {"self_attention": block.attention_norm, "ffn": block.feedforward_norm}
            if side == "decoder":
                cross = block.cross
                names = ("attention/linear_0", "attention/linear_1", "attention/linear_2")
                maps |= dict(zip(names, (cross.query, cross.key_value, cross.output), strict=True))
                norms["attention"] = block.cross_norm
            for part, layer in maps.items():
                linear(f"{name}/{part}", layer.weight, layer.bias)
            for part, layer in norms.items():
                norm(f"{name}/{part}/layer_norm", layer)
        norm(f"{side}/layer_norm", stack.norm)
        weights[f"{side}/position_encodings/encodings"] = sinusoids(512, width)
    weights["encoder/embeddings_0/weight"] = model.source_embedding.weight
    weights["decoder/embeddings/weight"] = model.target_embedding.weight
    linear("decoder/projection", model.output_weight, torch.zeros(len(model.output_weight)))
    return {name: value.detach().numpy().astype(np.float32) for name, value in weights.items()}


def joey_weights(model: EncoderDecoder) -> dict[str, np.ndarray]:
    """The weights by the names of JoeyNMT's `state_dict`."""
    decoder: Any = model.decoder
    score, cell, names = decoder.attend.score, decoder.layers[0], ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = {f"encoder.rnn.{name}": value for name, value in model.encoder.layers[0].named_parameters()}  # type: ignore[index, union-attr]
    weights |= {f"decoder.rnn.{name}_l0": getattr(cell, name) for name in names}
    weights |= {
        "src_embed.lut.weight": model.source_embedding.weight,
        "trg_embed.lut.weight": model.target_embedding.weight,
    }
    with torch.no_grad():
        score.memory.bias.zero_()  # JoeyNMT has none there
        combine = torch.cat(decoder.combine.weight.chunk(2, 1)[::-1], 1)  # [state; context]
    weights |= {"decoder.att_vector_layer.weight": combine, "decoder.att_vector_layer.bias": torch.zeros(len(combine))}
    weights |= {"decoder.output_layer.weight": model.output_weight}
    weights |= {f"decoder.bridge_layer.{name}": getattr(decoder.bridge[0], name) for name in ("weight", "bias")}
    for name, layer in {"key": score.memory, "query": score.query, "energy": score.energy}.items():
        weights[f"decoder.attention.{name}_layer.weight"] = layer.weight
    return {name: value.detach().numpy() for name, value in weights.items()}


class Peer:
    """A process of the peer, which waits for jobs."""

    def __init__(self, python: Path, tool: str, folder: Path) -> None:
        command = [str(python), str(Path(__file__).with_name("decoding_peer.py")), tool, str(folder)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.version = self._answer()["version"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise SystemExit("the peer ended; run benchmarks/decoding_peer.py by hand to see why")

    def __call__(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def call_of(
    model: Any, sources: list[list[int]], length: int, options: dict[str, Any], nbest: int = 1, rules: Any = ()
) -> DecodingCall:
    """The call for some sources, all of whose outputs have `length` tokens."""
    sizes = torch.tensor([len(row) for row in sources])
    ids = torch.tensor([row + [0] * (int(sizes.max()) - len(row)) for row in sources])
    search = SearchOptions(**options, min_length=length)
    return DecodingCall(model, ids, sizes, length, search, nbest, rules=rules)


def run_harken(model: EncoderDecoder, job: dict[str, Any]) -> dict[str, Any]:
    """One job, with the minimum length that plain calls do not have."""
    options, sources = {"beam": job["beam"], "precision": job["precision"]}, job["sources"]

    def decode(rows: list[list[int]]) -> list[list[int]]:
        return [row[0].tokens for row in COMPILED.decode(call_of(model, rows, job["length"], options))]

    freeze(model)
    decode(sources[: min(job["batch"], WARM_UP)])
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = [
        row for start in range(0, len(sources), job["batch"]) for row in decode(sources[start : start + job["batch"]])
    ]
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "tokens": tokens}


def agreement(first: list[list[int]], second: list[list[int]]) -> float:
    """The share of equal tokens."""
    pairs = [(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True)]
    return round(sum(a == b for a, b in pairs) / len(pairs), 3)


def write_marian(shape: str, folder: Path) -> None:
    """A folder like those of OPUS-MT with random weights; its tokenizers are not used."""
    import sentencepiece
    import transformers

    layers, width, inner, heads, size = MARIAN[shape]
    folder.mkdir()
    for side in ("source", "target"):
        with (folder / f"{side}.spm").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(["a b"]), model_writer=file, vocab_size=6, hard_vocab_limit=False,
                bos_id=-1, eos_id=0, unk_id=1, pad_id=-1, minloglevel=2,
            )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    tokens = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]  # </s>, <unk>, pieces
    tokens += [f"t{number}" for number in range(len(tokens), size - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", **special}))
    config = transformers.MarianConfig(
        vocab_size=size, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=inner,
        decoder_ffn_dim=inner, encoder_attention_heads=heads, decoder_attention_heads=heads,
        activation_function="swish", max_position_embeddings=512, scale_embedding=True, pad_token_id=size - 1,
        bos_token_id=None, eos_token_id=0, decoder_start_token_id=size - 1, forced_eos_token_id=None, init_std=0.05,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    with torch.no_grad():  # outputs depend on the source; each still repeats a token
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "layers" in name:
                parameter.normal_(std=SPREAD / parameter.shape[1] ** 0.5)
    model.generation_config.bad_words_ids = [[size - 1]]
    model.save_pretrained(folder)


def make(shape: str, folder: Path) -> EncoderDecoder:
    """The model of a shape; writes its weights and sizes for the peers."""
    torch.manual_seed(0)
    if shape in MARIAN:
        from harken.adopt import adopt

        write_marian(shape, folder / "marian")
        (folder / "settings.json").write_text(json.dumps({"marian": True, "threads": 1}))
        adopted: EncoderDecoder = adopt(folder / "marian", folder / "adopted").model.eval()
        return adopted
    if shape in RECURRENT:
        width, embedding, vocabulary = RECURRENT[shape]
        sizes = {"width": width, "embedding": embedding}
        model = build_model(RecurrentConfig(cell=shape, tied="none", **sizes), vocabulary, vocabulary).eval()
        weights, settings = joey_weights(model), sizes | {"cell": shape}
    else:
        layers, width, inner, heads, vocabulary = SHAPES[shape]
        settings = {"layers": layers, "width": width, "heads": heads, "feedforward": inner}
        model = build_model(TransformerConfig(**settings, tied="none"), vocabulary, vocabulary).eval()
        weights = peer_weights(model, width)
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    (folder / "settings.json").write_text(json.dumps(settings | {"vocabulary": vocabulary, "threads": 1}))
    return model


def measure(shape: str, given: argparse.Namespace, versions: dict[str, str]) -> list[dict[str, Any]]:
    """The cells of one shape."""
    python, tools = (
        (given.joey_python, ["joeynmt"]) if shape in RECURRENT else (given.peer_python, given.tools.split(","))
    )
    if python is None or not python.exists():
        print(f"{shape} is skipped: no Python with {' and '.join(tools)} is given", file=sys.stderr)
        return []
    chance = random.Random(1)
    lengths = [min(30, max(4, round(chance.gauss(14.3, 4.5)))) for _ in range(256)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make(shape, folder)
        vocabulary = len(model.output_weight)
        sources = [[chance.randrange(4, vocabulary) for _ in range(length)] + [3] for length in lengths]
        peers = {tool: Peer(python, tool, folder) for tool in tools}
        versions |= {tool: peer.version for tool, peer in peers.items()}
        for precision in given.precisions.split(","):
            for batch, beam in MARIAN_CELLS if shape in MARIAN else CELLS:
                job = {"precision": precision, "beam": beam, "batch": batch, "length": LENGTH}
                job["sources"] = sources[: SENTENCES[shape][batch]]
                measured: dict[str, list[dict[str, Any]]] = {"harken": []} | {tool: [] for tool in peers}
                for _ in range(given.rounds):
                    measured["harken"].append(run_harken(model, job))
                    for tool, peer in peers.items():
                        if tool != "transformers" or precision == "float32":
                            measured[tool].append(peer(job))
                rows.append(cell(shape, precision, batch, beam, len(job["sources"]) * LENGTH, measured))
                print(json.dumps(rows[-1]), flush=True)
        for peer in peers.values():
            peer.close()
    return rows


def cell(
    shape: str, precision: str, batch: int, beam: int, tokens: int, measured: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """One line of the table."""
    best = {
        tool: {kind: min(run[kind] for run in runs) for kind in ("wall", "cpu")}
        for tool, runs in measured.items()
        if runs
    }
    row: dict[str, Any] = {"shape": shape, "precision": precision, "batch": batch, "beam": beam}
    for tool, seconds in best.items():
        row[f"{tool} tokens/s"] = round(tokens / seconds["wall"], 1)
        row[f"{tool} tokens/cpu-s"] = round(tokens / seconds["cpu"], 1)
    for tool in best.keys() - {"harken"}:
        row[f"ratio to {tool}"] = round(best[tool]["wall"] / best["harken"]["wall"], 2)
        row[f"cpu ratio to {tool}"] = round(best[tool]["cpu"] / best["harken"]["cpu"], 2)
    if measured.get("ctranslate2"):
        row["aim"] = AIMS[batch]
    if (batch, beam) == (64, 5) and measured.get("joeynmt"):
        row["aim"] = JOEY_AIM
    for tool in ("ctranslate2", "joeynmt"):
        if measured.get(tool) and shape != "lstm":
            row["same"] = agreement(measured["harken"][0]["tokens"], measured[tool][0]["tokens"])
    return row


OPTIONS: dict[str, dict[str, Any]] = {  # of `SearchOptions`, but for what `option_call` reads
    "greedy": {"beam": 1},
    "beam 5": {"beam": 5},
    "no_repeat_ngram = 3": {"beam": 5, "no_repeat_ngram": 3},
    "repetition_penalty = 1.2": {"beam": 5, "repetition_penalty": 1.2},
    "unknown_penalty = 5": {"beam": 5, "unknown_penalty": 5.0},
    "coverage_penalty = 0.2": {"beam": 5, "coverage_penalty": 0.2},
    "word_reward = 0.1": {"beam": 5, "word_reward": 0.1},
    'stopping = "first"': {"beam": 5, "stopping": "first"},
    "time_limit = 60": {"beam": 5, "time_limit": 60.0},
    "diversity_groups = 5": {"beam": 5, "diversity_groups": 5},
    "banned, 20 phrases": {"beam": 5, "banned": 20},
    "forced prefix": {"beam": 5, "prefix": None},
    "preferred prefix": {"beam": 5, "prefix": 0.5},
    "required phrase": {"beam": 5, "phrases": True},
    "n-best of 5": {"beam": 5, "nbest": 5},
    "five rules at once": {"beam": 5, "no_repeat_ngram": 3, "repetition_penalty": 1.2, "unknown_penalty": 5.0,
                           "coverage_penalty": 0.2, "word_reward": 0.1},
    "greedy, no_repeat_ngram = 3": {"beam": 1, "no_repeat_ngram": 3},
    "greedy, streaming": {"beam": 1, "stream": True},
    "streaming": {"beam": 5, "stream": True},
    "sampling": {"beam": 1, "sample": True},
    "sampling, top_k = 20": {"beam": 1, "sample": True, "top_k": 20},
    "sampling, top_p = 0.9": {"beam": 1, "sample": True, "top_p": 0.9},
    "sampling, min_p = 0.1": {"beam": 1, "sample": True, "min_p": 0.1},
    "two models": {"beam": 5, "models": 2},
    "language model": {"beam": 5, "language_model": True},
}  # fmt: skip


def option_call(model: Any, sources: list[list[int]], given: dict[str, Any]) -> DecodingCall:
    """The call of one entry of `OPTIONS`."""
    options, vocabulary, chance = dict(given), len(model.output_weight), random.Random(2)
    phrases = [[chance.randrange(4, vocabulary) for _ in range(2)] for _ in range(20)]
    rules = list[Any]()
    if options.pop("banned", 0):
        rules.append(Banned(phrases))
    if "prefix" in options:
        rules.append(Prefix([phrases[0]] * len(sources), options.pop("prefix")))
    if options.pop("phrases", False):
        rules.append(Constraints([[[phrases[0]]]] * len(sources)))
    if options.pop("language_model", False):
        language = LANGUAGE[vocabulary]
        rules.append(LanguageModelFusion(language, language.start(len(sources)), 0.2))
    if options.pop("models", 1) > 1:
        model = Ensemble([model, model])
    is_streamed = options.pop("stream", False)
    call = call_of(model, sources, LENGTH, options, nbest=options.pop("nbest", 1), rules=tuple(rules))
    return replace(call, observe=CertainPrefix(lambda tokens: None)) if is_streamed else call


LANGUAGE: dict[int, Any] = {}  # a language model for each size of a vocabulary


def measure_options(shape: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each option: tokens a second, beside those of plain search with the same beam in the same rounds."""
    chance, rows = random.Random(1), []
    with tempfile.TemporaryDirectory() as name:
        model = make(shape, Path(name))
    vocabulary = len(model.output_weight)
    LANGUAGE[vocabulary] = build_language(RecurrentLanguageConfig(width=256, embedding=256), vocabulary).eval()
    freeze(model)
    lengths = [min(30, max(4, round(chance.gauss(14.3, 4.5)))) for _ in range(64)]
    sources = [[chance.randrange(4, vocabulary) for _ in range(length)] + [3] for length in lengths]
    for batch in (1, 64):
        batches = [[row] for row in sources[: given.sentences]] if batch == 1 else [sources]
        names = [name for name in OPTIONS if batch == 1 or "streaming" not in name]
        best = dict.fromkeys([*names, *(f"{name}, reference" for name in ("greedy", "beam 5"))], math.inf)
        for _ in range(given.rounds):
            for name in best:
                is_reference = name.endswith(", reference")
                options, seconds = OPTIONS[name.removesuffix(", reference")], 0.0
                for part in batches:
                    call = option_call(model, part, options)
                    assert choose(call) is COMPILED, (name, COMPILED.why_not(call))
                    started = time.process_time()
                    hypotheses = run_reference(call) if is_reference else COMPILED.decode(call)
                    seconds += time.process_time() - started
                    assert all(len(row[0].tokens) == LENGTH for row in hypotheses), name
                best[name] = min(best[name], seconds)
        for name, seconds in best.items():
            beam = OPTIONS[name.removesuffix(", reference")]["beam"]
            plain = best["greedy" if beam == 1 else "beam 5"]
            rate = round(len(batches) * len(batches[0]) * LENGTH / seconds)
            line = {"shape": shape, "batch": batch, "option": name, "tokens/cpu-s": rate}
            rows.append(line | {"share of plain": round(plain / seconds, 2)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def write(given: argparse.Namespace, rows: list[dict[str, Any]], versions: dict[str, str]) -> None:
    """The record, to read and to read in."""
    record = {**machine("numba"), "threads": 1, "rows": rows}
    record["versions"] |= versions
    title = f"# {'Options of the search' if given.options else 'Decoding'} on a CPU"
    title += f"{'' if given.options else ' against the peers'}, {record['date']}"
    page = f"{title}\n\n{__doc__}\n{rows_table(rows)}\n\n- One thread.\n{facts_of(record)}"
    pythons = {"PEER_PYTHON": given.peer_python, "JOEY_PYTHON": given.joey_python}
    records.write(
        "cpu-decoding-options" if given.options else "cpu-decoding",
        record,
        page,
        given.out,
        **{name: path for name, path in pythons.items() if path},
    )


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peer-python", type=Path, help="Python of a venv with ctranslate2, transformers")
    parser.add_argument("--joey-python", type=Path, help="Python of a venv with joeynmt 2.3")
    parser.add_argument("--tools", default="ctranslate2")
    parser.add_argument("--shapes", default="small,base,lstm,gru")
    parser.add_argument("--precisions", default="float32,int8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", action="store_true", help="each option of the search beside plain search")
    parser.add_argument("--sentences", type=int, default=16, help="one by one, with --options")
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for kind in {Recurrent if shape in RECURRENT else Transformer for shape in given.shapes.split(",")}:
        KERNELS[kind].load()
    versions: dict[str, str] = {}
    shapes = given.shapes.split(",")
    if given.options:
        rows = [row for shape in shapes for row in measure_options(shape, given)]
    else:
        rows = [row for shape in shapes for row in measure(shape, given, versions)]
    if rows:
        write(given, rows, versions)


if __name__ == "__main__":
    main()
