"""From a recipe's section to a network, and one sentence where that cannot be."""

import pytest

from harken.errors import UserError
from harken.models.build import build_model
from harken.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig

TRANSFORMER = {"width": 8, "heads": 2, "feedforward": 8, "layers": 1}
RECURRENT = {"width": 8, "embedding": 4}


@pytest.mark.parametrize("config", [TransformerConfig(**TRANSFORMER), RecurrentConfig(**RECURRENT)])
def test_tied_embeddings_need_one_vocabulary(config: TransformerConfig | RecurrentConfig) -> None:
    with pytest.raises(UserError, match=r"^model: tied embeddings need one vocabulary .*tokenizer\.joint = true$"):
        build_model(config, 10, 12)


def test_every_option_arrives() -> None:
    config = TransformerConfig(**TRANSFORMER, decoder_layers=3, norm="post", dropout=0.25, tied="none")
    model = build_model(config, 10, 12)
    blocks = model.decoder.stack.blocks
    assert (len(model.encoder.stack.blocks), len(blocks), blocks[2].dropout.p) == (1, 3, 0.25)
    assert not blocks[0].pre
    assert model.output_weight.shape == (12, 8)
    recurrent = build_model(RecurrentConfig(**RECURRENT, cell="gru", attention="dot", layers=2, dropout=0.5), 10, 10)
    decoder = recurrent.decoder
    assert (decoder.config.cell, len(decoder.layers), decoder.dropout.p, decoder.feeds_back) == ("gru", 2, 0.5, True)


def test_widths_that_only_sinusoids_forbid() -> None:
    assert TransformerConfig(width=9, heads=3, positions="alibi").width == 9


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (TransformerConfig, {"width": 10, "heads": 4}, "width 10 is not a multiple of model.heads 4"),
        (TransformerConfig, {"width": 9, "heads": 3}, "width 9 is odd"),
        (TransformerConfig, {"alignment_layer": 3}, "alignment_layer 3 is outside the 3 decoder layers"),
        (TransformerConfig, {"alignment_heads": [4]}, "head outside 0 to 3"),
        (TransformerConfig, {"width": 12, "heads": 4, "positions": "rotary"}, "heads of odd width 3; .* e.g. width 24"),
        (TransformerConfig, {"positions": "rotery"}, "sinusoidal"),
        (TransformerConfig, {"positions": "rotary", "attention": "additive"}, 'attention "additive" adds them; choose'),
        (ConvolutionalConfig, {"kernel": 4}, "kernel 4 is even; .* so choose 5"),
        (ConvolutionalConfig, {"attention": "none"}, 'attention is "none", but the convs2s style .* "bytenet"'),
        (ConvolutionalConfig, {"embedding": 9, "positions": "sinusoidal"}, "embedding 9 is odd"),
        (ConvolutionalConfig, {"alignment_layer": 4}, "alignment_layer 4 is outside the 4 decoder layers"),
        (ConvolutionalConfig, {"style": "bytenets"}, "convs2s"),
        (RecurrentConfig, {"width": 9}, "width 9 is odd"),
        (RecurrentConfig, {"attention": "dot", "coverage": True}, 'additive score, but model.attention is "dot"'),
        (RecurrentConfig, {"attention": "none", "attend": "before"}, 'model.attend is .* model.attention is "none"'),
        (RecurrentConfig, {"attention": "none", "hard_attention": True}, "model.hard_attention is an option"),
        (RecurrentConfig, {"wdith": 8}, "wdith"),
    ],
)
def test_incompatible_options_are_refused(config: type, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**options)
