"""Fast twin of `harken.nn.recurrent.unroll` on a CPU: a whole layer, one direction or both, forward and backward by
hand.

What it does otherwise than a loop over steps under autograd:

- the product of every step multiplies with a packed weight (`cpu_recurrent_products`)
- the gates of a step are one pass over memory, compiled by numba (`cpu_recurrent_lstm_gates` and its neighbours)
- threads take rows of the batch, or a direction each, and meet after the last step (`cpu_recurrent_threads`)
- each weight's gradient is one product over all steps; rows that have ended take no part

The definition is `harken.nn.recurrent.stack.Stack.definition`. It has second derivatives; this has none and says so
when asked.
"""

from __future__ import annotations

import os
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.plan import Plan, Setting
from harken.kernels.recurrent.cpu.products import has_packed_products
from harken.kernels.recurrent.cpu.threads import run_all

if TYPE_CHECKING:
    from harken.kernels.recurrent.cpu.direction import Pass

# What a direction may have, in the order it is handed to autograd.
NAMES = (
    "values",  # (N, I), packed
    "weight_ih",
    "constant",  # b
    "weight_hh",
    "weight_ch",
    "weight_hr",
    "candidate_bias",
    "norm_input",
    "norm_hidden",
    "norm_cell",
    "norm_cell_shift",
    "hidden",  # (B, R): the first state
    "cell",
)


@cache
def is_there() -> bool:
    """Whether this machine has what the path needs."""
    return has_packed_products() and find_spec("numba") is not None


def is_wanted() -> bool:
    """HARKEN_KERNELS=off turns harken's own kernels off."""
    return os.environ.get("HARKEN_KERNELS", "") != "off"


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, settings: list[Setting], plan: Plan, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        from harken.kernels.recurrent.cpu.cells import make_pass

        named = [
            {name: tensor.detach().contiguous() for name, tensor in zip(NAMES, some, strict=True) if tensor is not None}
            for some in _groups(tensors)
        ]
        passes = [make_pass(setting, given, plan) for setting, given in zip(settings, named, strict=True)]
        parts = max(1, torch.get_num_threads() // len(passes))
        run_all([task for each in passes for task in each.input_tasks(parts)])
        lanes = plan.lanes(parts)
        run_all([partial(each.forward, *some) for some in lanes for each in passes])
        ctx.passes, ctx.lanes, ctx.parts = passes, lanes, parts
        outputs = [each.hidden.after for each in passes]
        # the same memory, but no view: autograd is strict with views that a Function returns
        output = torch.cat(outputs, 1) if len(outputs) > 1 else torch.from_numpy(outputs[0].numpy())
        last = [timeline.last.clone() for each in passes for timeline in each.timelines]
        if not any(ctx.needs_input_grad):
            for each in passes:
                each.leave()
            ctx.passes = None
        ctx.save_for_backward(output)  # a change in place would be seen: its version is checked
        return output, *last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "second derivatives (create_graph=True) of a recurrent layer are not in its CPU kernel: "
                "call the layer's definition(...) in the place of the layer"
            )
        _ = ctx.saved_tensors  # raises where the graph was freed, or the output changed
        passes: list[Pass] = ctx.passes
        keep_graph = torch._C._autograd._get_current_graph_task_keep_graph()
        output, *last = gradients
        pieces = output.chunk(len(passes), 1)
        states = len(last) // len(passes)
        for count, (each, piece) in enumerate(zip(passes, pieces, strict=True)):
            each.begin_backward(piece, last[count * states : (count + 1) * states], keep_graph)
        run_all([partial(each.backward, *some) for some in ctx.lanes for each in passes])
        needed = list(_groups(ctx.needs_input_grad[2:]))
        wanted = [{name for name, need in zip(NAMES, some, strict=True) if need} for some in needed]
        run_all(
            [task for each, names in zip(passes, wanted, strict=True) for task in each.gradient_tasks(names, ctx.parts)]
        )
        found = [
            each.gradients.get(name) if name in names else None
            for each, names in zip(passes, wanted, strict=True)
            for name in NAMES
        ]
        if not keep_graph:
            for each in passes:
                each.leave()
            ctx.passes = None
        return None, None, *found


def _groups(flat: Any) -> list[Any]:
    return [flat[at : at + len(NAMES)] for at in range(0, len(flat), len(NAMES))]


def run_layer(
    settings: list[Setting], named: list[dict[str, Tensor | None]], sizes: list[int], batch: int
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """A layer of one direction or two, each with its tensors by `NAMES` -> packed (N, R x directions), last states."""
    if not torch.is_grad_enabled():  # a Function is told what requires gradients, not whether they are wanted now
        named = [
            {name: None if tensor is None else tensor.detach() for name, tensor in given.items()} for given in named
        ]
    flat = [given.get(name) for given in named for name in NAMES]
    output, *last = _Layer.apply(settings, Plan(sizes, batch), *flat)
    states = len(last) // len(settings)
    return output, [tuple(last[at : at + states]) for at in range(0, len(last), states)]
