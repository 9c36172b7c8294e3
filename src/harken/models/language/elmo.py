"""ELMo: language models in both directions over words read by their characters (Peters et al., 2018).

    x_t = W f(characters of w_t)                                    f: as in `character_features.py`
    forward    h_{j,t} = LSTM_j(h_{j,t-1}, h_{j-1,t})               P(w_{t+1} | w_1 .. w_t) = softmax(U h_{L,t} + b)
    backward   g_{j,t} = LSTM_j(g_{j,t+1}, g_{j-1,t})               P(w_{t-1} | w_t .. w_T) = softmax(U g_{L,t} + b)
    layers     [x; x], [h_1; g_1], ..., [h_L; g_L]                  from the second LSTM on, its input is added

Both directions share the character network and the output layer, but not the LSTMs. Neither sees what it predicts. Rows
begin with BOS and end with EOS, so that the first and the last word are predicted too.

>>> model = ElmoNetwork(ElmoConfig(width=4, character_width=6), words=9, characters=9)
>>> rows = torch.tensor([[2, 5, 6, 3]])
>>> batch = WordBatch(rows, torch.tensor([[0, 1, 2, 3]]), torch.tensor([[2, 0], [5, 6], [7, 0], [3, 0]]))
>>> model.layers_of(batch, torch.tensor([4])).shape
torch.Size([3, 1, 4, 8])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.heads.character_features import CharacterFeatures, WordBatch, dummy_words
from harken.models.language.config import ElmoConfig
from harken.nn import LSTM
from harken.nn.dropout import VariationalDropout
from harken.nn.loss import linear_cross_entropy


class ElmoNetwork(nn.Module):
    """See the module's docstring; for so many words and characters."""

    def __init__(self, config: ElmoConfig, words: int, characters: int) -> None:
        super().__init__()
        width, layers = config.width, config.layers
        self.width, self.depth = width, layers + 1
        self.speller = CharacterFeatures(
            characters, config.character_embedding, config.character_width, config.spelling
        )
        self.project = nn.Linear(config.character_width, width)
        self.ahead = nn.ModuleList(LSTM(width, width, batch_first=True, orthogonal=True) for _ in range(layers))
        self.back = nn.ModuleList(LSTM(width, width, batch_first=True, orthogonal=True) for _ in range(layers))
        self.dropout = VariationalDropout(config.dropout)
        self.output = nn.Linear(width, words)
        nn.init.normal_(self.output.weight, std=width**-0.5)
        nn.init.zeros_(self.output.bias)

    def directions(self, batch: WordBatch, lengths: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Words (B, T, D), and the outputs of each layer, forward and backward."""
        spelled: Tensor = self.project(self.speller(batch.spellings))[batch.spelled]  # (B, T, D)
        reverse = reverse_indices(lengths, spelled.shape[1])
        back = [gather_steps(states, reverse) for states in self._read(self.back, gather_steps(spelled, reverse))]
        return spelled, self._read(self.ahead, spelled), back

    def _read(self, layers: nn.ModuleList, below: Tensor) -> list[Tensor]:
        outputs: list[Tensor] = []
        for depth, layer in enumerate(layers):
            above = layer(self.dropout(below))[0]
            below = above + below if depth else above
            outputs.append(below)
        return outputs

    def layers_of(self, batch: WordBatch, lengths: Tensor) -> Tensor:
        """(L + 1, B, T, 2 D): the words first, then each layer; padding holds arbitrary values."""
        spelled, ahead, back = self.directions(batch, lengths)
        return torch.stack([torch.cat(pair, -1) for pair in zip([spelled, *ahead], [spelled, *back], strict=True)])

    def top(self, batch: WordBatch, lengths: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Forward and backward: the inputs of the output layer (M, D), and the words to predict (M,)."""
        _, ahead, back = self.directions(batch, lengths)
        inside = torch.arange(batch.words.shape[1] - 1, device=lengths.device) < lengths[:, None] - 1  # (B, T - 1)
        later, earlier = batch.words[:, 1:][inside], batch.words[:, :-1][inside]
        return (self.dropout(ahead[-1])[:, :-1][inside], later), (self.dropout(back[-1])[:, 1:][inside], earlier)

    def loss(self, batch: WordBatch, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
        """- log P of every next word and of every previous one, summed."""
        hidden, labels = (torch.cat(pair) for pair in zip(*self.top(batch, lengths), strict=True))
        return linear_cross_entropy(hidden, self.output.weight, self.output.bias, labels, smoothing)

    def dry_run(self, length: int) -> Tensor:
        """Logits (2 T - 2, V) of a sentence of `length` words in both directions (`harken.models.sizing`)."""
        device = self.output.weight.device
        pairs = self.top(dummy_words(length, device), torch.tensor([length], device=device))
        logits: Tensor = self.output(torch.cat([hidden for hidden, _ in pairs]))
        return logits


def reverse_indices(lengths: Tensor, time: int) -> Tensor:
    """(B, T): the steps of each row in reverse order; padding stays at the end.

    >>> reverse_indices(torch.tensor([3, 2]), 3).tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    places = torch.arange(time, device=lengths.device)
    return torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)


def gather_steps(values: Tensor, indices: Tensor) -> Tensor:
    """Values (B, T, D) in the order of indices (B, T)."""
    return values.gather(1, indices[:, :, None].expand(-1, -1, values.shape[2]))
