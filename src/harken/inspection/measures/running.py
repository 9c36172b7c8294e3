"""How any model is run on any batch, down to one number: the loss whose gradients are looked at.

a recurrent layer      batch: values (B, T, I), or a tuple of what it is called with, or a dict of names to values
any other module       the same
a translation network  batch: `harken.data.io.token_rows.ParallelBatch`
a `Translator`         batch: pairs of sentences
anything that predicts token by token       batch: what has `predictions(model)` -> logits (B, T, V), the tokens that
                       should come (B, T), and the place of each row's last one (B,); a `LanguageModel`: texts
anything else that has a loss at every step batch: what has `losses(model)` -> (B, T), and those places (B,)

loss="last"    of a layer: |h|^2 of its last state, each direction's own last; of a module that gives (B, T, D): |y|^2
               of the last step; of a translator: the cross-entropy of each row's last token. Every step then is a
               clear distance away from the loss.
loss="all"     of a translator: the cross-entropy of all tokens, as in training; of others: |y|^2 of all outputs.
loss=f         f(what the model returned) -> one number.

Losses are summed over rows, so that a row's gradients do not depend on its neighbours.

>>> from harken.nn import RNN
>>> layer = RNN(2, 3, batch_first=True)
>>> output, state = layer(torch.ones(1, 4, 2))
>>> bool(run(layer, torch.ones(1, 4, 2)) == (state**2).sum())
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.errors import UserError
from harken.nn.recurrent.stack import Stack

Loss = str | Callable[[Any], Tensor]


def unwrap(model: Any, batch: Any) -> tuple[nn.Module, Any]:
    """A translator's network and its batch of ids; anything else as it is.

    Raises:
        UserError: what was given is no model.
    """
    if isinstance(model, nn.Module):
        return model, batch
    if isinstance(getattr(model, "model", None), nn.Module) and hasattr(model, "batch"):
        examples = isinstance(batch, list | tuple) and not hasattr(batch, "predictions")  # or a batch, a named tuple
        return model.model, model.batch(batch) if examples else batch
    raise UserError(f"a {type(model).__name__} cannot be looked into; give a torch module or a harken translator")


def run(model: nn.Module, batch: Any, loss: Loss | None = None, lengths: Tensor | None = None) -> Tensor:
    """The loss of a batch, a tensor without dimensions.

    Raises:
        UserError: a loss that does not fit what the model returned.
    """
    if isinstance(loss, str) and loss not in ("last", "all"):
        raise UserError(f'loss is {loss!r}; it may be "last", "all", or a function of what the model returns')
    if hasattr(batch, "predictions") or (hasattr(batch, "target_input") and hasattr(model, "logits")):
        return _token_loss(model, batch, loss or "last")
    if hasattr(batch, "losses"):
        return _step_loss(model, batch, loss or "last")
    result = model(*_arguments(batch), **_options(batch, lengths))
    if callable(loss):
        value = loss(result)
    else:
        value = _squares(model, result, loss or "last", lengths)
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"the loss has shape {shape}, but gradients need one number: sum it")
    return value.reshape(())


def attends_to_all_steps(model: Any, batch: Any) -> bool:
    """Whether the answer attends to or pools over what is read, so that the loss reaches every step of it directly."""
    if hasattr(batch, "direct"):
        return bool(batch.direct)
    if not (hasattr(batch, "target_input") and hasattr(model, "attention")):
        return False
    with torch.no_grad():
        batch = batch.to(next(model.parameters()).device)
        return model.attention(batch.source, batch.source_lengths, batch.target_input) is not None


def _arguments(batch: Any) -> tuple[Any, ...]:
    return () if isinstance(batch, dict) else tuple(batch) if isinstance(batch, list | tuple) else (batch,)


def _options(batch: Any, lengths: Tensor | None) -> dict[str, Any]:
    named = dict(batch) if isinstance(batch, dict) else {}
    return named if lengths is None else {**named, "lengths": lengths}


def _squares(model: nn.Module, result: Any, loss: str, lengths: Tensor | None) -> Tensor:
    if isinstance(model, Stack) and loss == "last":
        state = result[1][0] if isinstance(result[1], tuple) else result[1]  # h (layers x directions, B, H)
        return state[-model.directions :].square().sum()
    output = _main_output(result)
    if not isinstance(output, Tensor) or not output.is_floating_point():
        raise UserError(f"the model returned a {type(output).__name__}; say with loss= which number to look back from")
    if loss == "last" and output.dim() == 3:  # (B, T, D)
        output = output.transpose(0, 1) if _is_time_first_layer(model) else output
        rows = torch.arange(output.shape[0], device=output.device)
        output = output[:, -1] if lengths is None else output[rows, lengths.to(output.device) - 1]
    return output if output.dim() == 0 else output.square().sum()


def _main_output(result: Any) -> Any:
    """The main output of a model: the first of a tuple; of outputs by name, the loss, the logits or the last states."""
    for name in ("loss", "logits", "last_hidden_state"):
        output = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(output, Tensor):
            return output
    return result[0] if isinstance(result, tuple | list) and result else result


def _is_time_first_layer(model: nn.Module) -> bool:
    """Whether a layer of torch's or of harken's own takes (T, B, D); what others return is taken as (B, T, D)."""
    if not type(model).__module__.startswith(("torch.nn.", "harken.nn.")):
        return False
    return next((not module.batch_first for module in model.modules() if hasattr(module, "batch_first")), False)


def _token_loss(model: Any, batch: Any, loss: Loss) -> Tensor:
    """The cross-entropy of tokens, from what predicts them or from the states of a translator's decoder."""
    if hasattr(batch, "predictions"):
        hidden, targets, last = batch.predictions(model)  # (B, T, V), (B, T), (B,)
        logits: Callable[[Tensor], Tensor] = nn.Identity()
    else:
        batch = batch.to(next(model.parameters()).device)
        hidden, logits = model(batch.source, batch.source_lengths, batch.target_input), model.logits  # (B, T, D)
        targets, last = batch.target_output, batch.target_lengths - 1
    if callable(loss):
        return loss(hidden).reshape(())
    chosen = _steps(hidden, last, loss)
    return F.cross_entropy(logits(hidden[chosen]), targets[chosen], reduction="sum")


def _step_loss(model: nn.Module, batch: Any, loss: Loss) -> Tensor:
    losses, last = batch.losses(model)  # (B, T), (B,)
    return loss(losses).reshape(()) if callable(loss) else torch.where(_steps(losses, last, loss), losses, 0.0).sum()


def _steps(values: Tensor, last: Tensor, loss: str) -> Tensor:
    """(B, T): the last step of each row, or all up to it."""
    steps = torch.arange(values.shape[1], device=values.device)
    return steps == last[:, None] if loss == "last" else steps <= last[:, None]
