"""Transformers in CTranslate2: the tokens of greedy and beam search are those of harken."""

import sys
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.export import export_model
from harken.tasks.translate.decoding.searching import search

sys.path.insert(0, str(Path(__file__).parent))
from models import ENGLISH, RECURRENT, TRANSFORMER, make_model

ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")

CASES = {
    "sinusoidal": [],
    "post norm, gelu, learned": [
        *("model.norm=post", "model.activation=gelu", "model.positions=learned", "model.max_length=64")
    ],
    "swiglu, dot, none tied": ["model.activation=swiglu", "model.attention=dot", "model.tied=none"],
    "norm of embeddings, gelu_tanh": [
        "model.embedding_norm=true",
        "model.activation=gelu_tanh",
        "model.scale_embeddings=false",
    ],
    "silu, dot": ["model.activation=silu", "model.attention=dot"],
    "rotary": ["model.positions=rotary"],
    "heads of another width": ["model.head_width=4"],
    "heads of another width, dot": ["model.head_width=4", "model.attention=dot"],
    "rotary, heads of another width": ["model.positions=rotary", "model.head_width=12"],
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_of_greedy_and_beam_search(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    model = make_model(tmp_path / "model", TRANSFORMER, *CASES[case])
    exported = export_model(model, "ctranslate2", tmp_path / "ct2")
    other = ctranslate2.Translator(str(exported), compute_type="float32", inter_threads=1, intra_threads=1)
    sources = model.read(ENGLISH)
    pieces = [model.source.pieces(ids) for ids in sources.ids]
    for beam in (1, 4):
        request = model.request(1, beam=beam, stopping="count", max_length_factor=0.01, max_length_extra=20)
        wanted = [best[0] for best in search(request, sources, range(len(ENGLISH)), 1)]
        limits = {"min_decoding_length": 0, "max_decoding_length": 20}
        found = other.translate_batch(pieces, beam_size=beam, return_scores=True, **limits)
        # With a beam, harken prefers finished hypotheses to those that are cut off at the limit; CTranslate2 does not.
        same = [beam == 1 or len(one.hypotheses[0]) < 20 for one in found]
        assert sum(same) >= 2
        for one, best, is_same in zip(found, wanted, same, strict=True):
            assert not is_same or one.hypotheses[0] == model.target.pieces(best.tokens)
            # the biases that ban PAD and BOS leave their probability to the other tokens
            assert not is_same or best.normalised - 1e-3 <= one.scores[0] < best.normalised + 0.3
    assert len({tuple(best.tokens) for best in wanted}) > 1


@pytest.mark.parametrize(
    ("base", "overrides", "said"),
    [
        (TRANSFORMER, ["model.positions=alibi"], "CTranslate2 has no form for model.positions = 'alibi'"),
        (TRANSFORMER, ["model.experts=2"], "CTranslate2 has no form for model.experts"),
        (TRANSFORMER, ["model.decoder_mixer=ssru"], "CTranslate2 has no form for model.decoder_mixer = 'ssru'"),
        (RECURRENT, [], "CTranslate2 has no form for RecurrentEncoder"),
    ],
)
def test_what_ctranslate2_has_no_form_for_is_refused(
    base: list[str], overrides: list[str], said: str, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model", base, *overrides)
    with pytest.raises(UserError, match=said):
        export_model(model, "ctranslate2", tmp_path / "ct2")
