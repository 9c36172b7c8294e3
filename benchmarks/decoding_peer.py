"""The peer side of `decoding.py`: CTranslate2 or JoeyNMT on the weights harken saved, or Hugging Face's `generate`.

    python decoding_peer.py ctranslate2 FOLDER       # reads jobs from stdin, one JSON object a line; answers on stdout

FOLDER has `weights.npz`, whose names are those of CTranslate2's specification or of JoeyNMT's `state_dict`, and
`settings.json`; or `marian/`, a Marian model in Hugging Face's format, whose ids are two lower than harken's. Imports
nothing of harken, so that it runs with the Python of the peer.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]


class CTranslate2:
    """One translator for each precision."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import ctranslate2
        from ctranslate2.specs import model_spec, transformer_spec

        self.folder, self.translators, self.threads = folder, {}, settings["threads"]
        self.version = ctranslate2.__version__
        if settings.get("marian"):
            vocabulary = json.loads((folder / "marian" / "vocab.json").read_text())
            self.tokens = ["", "<unk>", "<pad>", "</s>", *[*vocabulary][2:-1]]  # by harken's ids
            self.ids = {token: number for number, token in enumerate(self.tokens)}
            self.folder = folder / "converted"
            ctranslate2.converters.TransformersConverter(str(folder / "marian")).convert(str(self.folder))
            return
        weights = np.load(folder / "weights.npz")
        spec = transformer_spec.TransformerSpec.from_config(settings["layers"], settings["heads"], pre_norm=True)

        def fill(layer: Any, name: str, value: Any) -> None:
            if name in weights:
                setattr(layer, name.rpartition("/")[2], weights[name])

        model_spec.visit_spec(spec, fill)
        self.tokens = SPECIALS + [f"t{number}" for number in range(4, settings["vocabulary"])]
        spec.register_source_vocabulary(self.tokens)
        spec.register_target_vocabulary(self.tokens)
        spec.validate()
        spec.optimize(quantization=None)
        spec.save(str(folder))
        self.ids = {token: number for number, token in enumerate(self.tokens)}

    def __call__(self, sources: list[list[int]], job: dict[str, Any]) -> list[list[int]]:
        import ctranslate2

        precision, length = job["precision"], job["length"]
        if precision not in self.translators:
            self.translators[precision] = ctranslate2.Translator(
                str(self.folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=self.threads
            )
        results = self.translators[precision].translate_batch(
            [[self.tokens[number] for number in source] for source in sources],
            beam_size=job["beam"],
            max_batch_size=job["batch"],
            min_decoding_length=length,
            max_decoding_length=length,
            return_scores=True,
        )
        return [[self.ids[token] for token in result.hypotheses[0]] for result in results]


class Transformers:
    """Marian's architecture in float32: the model of `marian/`, or the same shape with its own random weights."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import torch
        import transformers

        torch.set_num_threads(settings["threads"])
        self.version, self.is_marian = transformers.__version__, settings.get("marian", False)
        if self.is_marian:
            self.model = transformers.MarianMTModel.from_pretrained(folder / "marian").eval()
            return
        layers, heads, inner = settings["layers"], settings["heads"], settings["feedforward"]
        config = transformers.MarianConfig(
            vocab_size=settings["vocabulary"], d_model=settings["width"], encoder_layers=layers, decoder_layers=layers,
            encoder_ffn_dim=inner, decoder_ffn_dim=inner, encoder_attention_heads=heads, decoder_attention_heads=heads,
            activation_function="relu", pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2,
            forced_eos_token_id=None, scale_embedding=True,
        )  # fmt: skip
        self.model = transformers.MarianMTModel(config).eval()

    def __call__(self, sources: list[list[int]], job: dict[str, Any]) -> list[list[int]]:
        import torch

        outputs: list[list[int]] = []
        for start in range(0, len(sources), job["batch"]):
            rows = sources[start : start + job["batch"]]
            widest = max(map(len, rows))
            ids = torch.tensor([row + [0] * (widest - len(row)) for row in rows])
            mask = (ids != 0).long()
            if self.is_marian:
                ids = torch.where(ids == 3, 0, (ids - 2).clamp(min=0))  # </s> is 0 there
            with torch.inference_mode():
                generated = self.model.generate(
                    input_ids=ids, attention_mask=mask, num_beams=job["beam"], do_sample=False,
                    min_new_tokens=job["length"], max_new_tokens=job["length"],
                )  # fmt: skip
            outputs += (generated[:, 1:] + 2 * self.is_marian).tolist()
        return outputs


class JoeyNMT:
    """A recurrent encoder-decoder with Bahdanau's score and input feeding, float32."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        from importlib.metadata import version
        from types import SimpleNamespace

        import torch
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        torch.set_num_threads(settings["threads"])
        symbols = {f"{name}_token": token for name, token in zip(("pad", "unk", "bos", "eos"), SPECIALS, strict=True)}
        numbers = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3}  # padding and <unk> have other places here
        names = SimpleNamespace(**symbols, **numbers, lang_tags=[], sep_token=None, sep_id=None)
        vocabulary = Vocabulary([f"t{number}" for number in range(4, settings["vocabulary"])], names)
        side = {
            "type": "recurrent", "rnn_type": settings["cell"], "num_layers": 1, "dropout": 0.0,
            "embeddings": {"embedding_dim": settings["embedding"], "scale": True},
        }  # fmt: skip
        own = {"hidden_dropout": 0.0, "input_feeding": True, "init_hidden": "bridge", "attention": "bahdanau"}
        width = settings["width"]
        config = {
            "tied_embeddings": False,
            "tied_softmax": False,
            "encoder": side | {"bidirectional": True, "hidden_size": width // 2},
            "decoder": side | {"hidden_size": width} | own,
        }
        self.model, self.version = build_model(config, vocabulary, vocabulary).eval(), version("joeynmt")
        weights = np.load(folder / "weights.npz")
        self.model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights.files})

    def __call__(self, sources: list[list[int]], job: dict[str, Any]) -> list[list[int]]:
        import torch
        from joeynmt.batch import Batch
        from joeynmt.search import search

        order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
        rows = [sources[row] for row in order]
        ids = torch.tensor([row + [1] * (len(rows[0]) - len(row)) for row in rows])
        lengths, device = torch.tensor([len(row) for row in rows]), torch.device("cpu")
        batch = Batch(ids, lengths, None, None, None, torch.arange(len(rows)), device, 1, 3, is_train=False)
        length = job["length"]
        generated, *_ = search(self.model, batch, length, job["beam"], 1.0, min_output_length=length + 1)
        outputs: list[list[int]] = [[] for _ in rows]
        for row, tokens in zip(order, generated.tolist(), strict=True):
            outputs[row] = tokens[:length]
        return outputs


def main() -> None:
    """Answers one job after the other: seconds of wall and CPU time, and the tokens."""
    folder = Path(sys.argv[2])
    settings = json.loads((folder / "settings.json").read_text())
    tools: dict[str, Any] = {"ctranslate2": CTranslate2, "transformers": Transformers, "joeynmt": JoeyNMT}
    tool = tools[sys.argv[1]](folder, settings)
    print(json.dumps({"version": tool.version}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        sources = [
            job["sources"][start : start + job["batch"]] for start in range(0, len(job["sources"]), job["batch"])
        ]
        tool(sources[0][:8], job)
        wall, cpu = time.perf_counter(), time.process_time()
        tokens = [row for batch in sources for row in tool(batch, job)]
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(seconds | {"tokens": tokens}), flush=True)


if __name__ == "__main__":
    main()
