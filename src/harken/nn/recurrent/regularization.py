"""Regularisers of the recurrence: recurrent (variational) dropout, zoneout and weight drop.

recurrent dropout    U (m * h): one mask m for all steps of a sequence, on h as the gates see it. Only in training;
                     scaled by 1 / (1 - p), so that the mean stays. Gal and Ghahramani (2016).
zoneout              h = s * h_old + (1 - s) * h_new, and likewise c: each unit skips a step with probability p. In
                     training s is drawn for every step, in evaluation it is its mean p. Krueger et al. (2017).
weight drop          h = f(W x + (m * U) h): one mask m on the entries of U for a whole pass. Merity et al. (2018),
                     after DropConnect.

>>> old, new = (torch.tensor([[4.0]]),), (torch.tensor([[0.0]]),)
>>> zoneout(Noise(None, (0.25,)), 0, old, new)[0].item()  # a quarter of the old state stays
1.0
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.autograd import takes_torch_operators
from harken.kernels.recurrent.call import Noise
from harken.nn.recurrent.cell import State

NONE = Noise(None, ())


def zoneout(noise: Noise, time: int, old: State, new: State) -> State:
    """The state (parts (B, H)) after zoneout; with fewer rows than were drawn, the first rows."""
    if not noise.stay:
        return new
    return tuple(
        torch.lerp(after, before, stay)
        if isinstance(stay, float)
        else torch.where(stay[time, : after.shape[0]], before, after)
        for stay, before, after in zip(noise.stay, old, new, strict=True)
    )


def draw_noise(
    recurrent_dropout: float,
    zoneout_rate: float,
    training: bool,
    time: int,
    batch: int,
    sizes: tuple[int, ...],
    like: Tensor,
) -> Noise:
    """Masks for a state whose parts have the widths `sizes`, h first."""
    if not recurrent_dropout and not zoneout_rate:
        return NONE
    keep = None
    if training and recurrent_dropout:
        keep = torch.empty(batch, sizes[0], device=like.device, dtype=like.dtype).bernoulli_(1 - recurrent_dropout)
        keep = keep.div_(1 - recurrent_dropout)
    if not zoneout_rate:
        return Noise(keep, ())
    if not training:
        return Noise(keep, tuple(zoneout_rate for _ in sizes))
    drawn = (_draw(torch.Size((time, batch, size)), zoneout_rate, like.device) for size in sizes)
    return Noise(keep, tuple(drawn))


def _draw(shape: torch.Size, p: float, device: torch.device) -> Tensor:
    """True with probability p; on a CPU four values share one 64-bit draw, so p is rounded to a multiple of 1/65536."""
    if device.type != "cpu" or takes_torch_operators():  # the draw below cannot be traced
        return torch.rand(shape, device=device) < p
    count = shape.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[:count] < round(p * 2**16) - 2**15).view(shape)


def call_with_dropped_weights(layer: nn.Module, p: float, *arguments: Any, **options: Any) -> Any:
    """`layer(*arguments, **options)` with weight drop in training.

    U is the same at every step, so one dropped copy serves all of them: the layer is called with that copy instead of
    its own matrix, by whatever backend it uses otherwise. Gradients reach U through the copy.

    >>> from harken.nn import LSTM
    >>> layer, x = LSTM(3, 5), torch.ones(4, 1, 3)
    >>> torch.equal(call_with_dropped_weights(layer, 0.5, x)[0], layer(x)[0])
    False
    >>> torch.equal(call_with_dropped_weights(layer.eval(), 0.5, x)[0], layer(x)[0])
    True
    """
    if not layer.training or p == 0:
        return layer(*arguments, **options)
    dropped = {
        name: F.dropout(weight, p)
        for name, weight in layer.named_parameters()
        if name.split(".")[-1].startswith("weight_hh")
    }
    return torch.func.functional_call(layer, dropped, arguments, options)
