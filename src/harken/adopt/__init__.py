"""Pretrained models of others as model folders: `harken adopt FOLDER --out runs/opus`.

A folder in Hugging Face's format (config.json, safetensors, tokenizer files) becomes a folder on which every command
works. The network is an ordinary configuration of harken's own; its weights get other names, and the features of every
layer may get another order, which changes no output.

    marian    OPUS-MT: two SentencePiece models over one vocabulary
    bart, mbart, m2m_100    BART, mBART, mBART-50, M2M-100, NLLB: byte-level or SentencePiece, languages
    t5, mt5   T5, T5 v1.1, mT5, Flan-T5: one SentencePiece model
    gpt2      GPT-2, as a language model: byte-level BPE
    bert, roberta, distilbert   as masked language models: word pieces or byte-level BPE
    pegasus   what `harken export` writes for models with the norms before each sub-layer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.adopt.bert import NAMES, read_bert
from harken.adopt.fairseq import read_fairseq
from harken.adopt.files import read_config
from harken.adopt.gpt2 import read_gpt2
from harken.adopt.marian import read_marian
from harken.adopt.t5 import read_t5
from harken.errors import UserError
from harken.files import atomic_folder, atomic_write, expand_user
from harken.training.digests import write_digests
from harken.training.folder import CARD, MODEL, RECIPE
from harken.training.weights import save_tensors

MULTILINGUAL = dict.fromkeys(("bart", "mbart", "m2m_100"), read_fairseq)  # these take a pair of languages
ARCHITECTURES = {  # by the model_type of config.json
    "marian": read_marian,
    "pegasus": read_marian,
    "t5": read_t5,
    "mt5": read_t5,
    "gpt2": read_gpt2,
    **dict.fromkeys(NAMES, read_bert),
}


def adopt(folder: str | Path, out: str | Path, pair: str | None = None) -> Any:
    """Write a model of Hugging Face's format into a new or an empty folder, and load it.

    Args:
        pair: the languages of a multilingual model, source first, such as en-fr.

    Raises:
        UserError: the folder cannot be read, or its architecture or one of its options is not known.
    """
    source = expand_user(folder)
    config = read_config(source)
    kind = config.get("model_type", "")
    if kind not in ARCHITECTURES and kind not in MULTILINGUAL:
        known = ", ".join([*ARCHITECTURES, *MULTILINGUAL])
        raise UserError(f"{source} is of the architecture {config.get('model_type')!r}; {known} can be adopted")
    if pair and kind in ARCHITECTURES:
        raise UserError(f"{source} is of the architecture {kind!r}, which has no choice of languages; leave --pair out")
    adopted = MULTILINGUAL[kind](source, config, pair) if kind in MULTILINGUAL else ARCHITECTURES[kind](source, config)
    from harken.api import load

    with atomic_folder(out) as temporary:
        atomic_write(temporary / RECIPE, adopted.recipe.to_toml())
        save_tensors(temporary / MODEL, adopted.tensors)
        names = [path.name for side, name in adopted.tokenizers for path in side.save(temporary, name)]
        atomic_write(temporary / CARD, f"# {source.name}\n\nAdopted from {source.name}, {config['model_type']}.\n")
        write_digests(temporary, names)
    return load(expand_user(out))
