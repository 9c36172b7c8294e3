"""A whole recurrent layer on a CPU, one direction or both, with its backward pass written by hand.

How it differs from a loop over steps under autograd:

- the product of every step multiplies by a packed weight (`products.py`)
- the gates of a step are one pass over memory, compiled by numba (`rnn.py`, `lstm.py`, `gru.py`)
- threads work on rows of the batch, or a direction each, and meet after the last step (`runtime.py`)
- each weight's gradient is one product over all steps; rows that have ended take no part

The reference is `harken.nn.recurrent.stack.Stack.reference`. It has second derivatives; this has none and raises where
they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.kernels.autograd import first_order, takes_torch_operators
from harken.kernels.recurrent.call import WEIGHTS, Call, CellKind, RecurrentBackend, Result
from harken.kernels.recurrent.cpu.plan import Plan, Setting
from harken.kernels.recurrent.cpu.products import has_packed_products
from harken.kernels.recurrent.cpu.runtime import run_all
from harken.kernels.recurrent.cudnn import has_torch_loop

if TYPE_CHECKING:
    from harken.kernels.recurrent.cpu.direction import Pass

# The tensors of a direction, in the order they are handed to autograd: packed x (N, I), weights, the first state.
NAMES = ("values", *WEIGHTS, "hidden", "cell")


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None


def is_available() -> bool:
    """Whether this process has what the kernel needs: oneDNN, which can be turned off at any time, and numba."""
    return has_packed_products() and _has_numba()


@dataclass
class _Layer:
    """One call of the operator: its arguments beside tensors, and the state kept for the backward pass."""

    settings: list[Setting]
    plan: Plan
    passes: list[Pass] = field(default_factory=list)
    lanes: list[tuple[int, int]] = field(default_factory=list)
    parts: int = 1

    def release(self) -> None:
        """Give the memory that was kept back to the workspace."""
        for each in self.passes:
            each.release()
        self.passes = []


class _Operator(torch.autograd.Function):
    @staticmethod
    def forward(layer: _Layer, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        named = [
            {name: tensor.detach().contiguous() for name, tensor in zip(NAMES, some, strict=True) if tensor is not None}
            for some in _groups(tensors)
        ]
        layer.passes = [make_pass(*given, layer.plan) for given in zip(layer.settings, named, strict=True)]
        layer.parts = max(1, torch.get_num_threads() // len(layer.passes))
        run_all([task for each in layer.passes for task in each.input_tasks(layer.parts)])
        layer.lanes = layer.plan.lanes(layer.parts)
        run_all([partial(each.forward, *some) for some in layer.lanes for each in layer.passes])
        outputs = [each.hidden.after for each in layer.passes]
        # the same memory, but no view: autograd is strict with views that a Function returns
        output = torch.cat(outputs, 1) if len(outputs) > 1 else torch.from_numpy(outputs[0].numpy())
        return output, *(timeline.last.clone() for each in layer.passes for timeline in each.timelines)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, ...]) -> None:
        ctx.layer, *tensors = inputs
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(output[0], *tensors)  # the passes hold aliases: changes in place are detected here
        else:
            ctx.layer.release()

    @staticmethod
    @first_order("the CPU kernel of recurrent layers")
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        _ = ctx.saved_tensors  # raises where the graph was freed, or a weight, the input or the output was changed
        layer: _Layer = ctx.layer
        keep_graph = torch._C._autograd._get_current_graph_task_keep_graph()
        output, *last = gradients
        pieces = output.chunk(len(layer.passes), 1)
        states = len(last) // len(layer.passes)
        for count, (each, piece) in enumerate(zip(layer.passes, pieces, strict=True)):
            each.begin_backward(piece, last[count * states : (count + 1) * states], keep_graph)
        run_all([partial(each.backward, *some) for some in layer.lanes for each in layer.passes])
        groups = _groups(ctx.needs_input_grad[1:])
        needed = [{name for name, need in zip(NAMES, group, strict=True) if need} for group in groups]
        pairs = list(zip(layer.passes, needed, strict=True))
        run_all([task for each, names in pairs for task in each.gradient_tasks(names, layer.parts)])
        flat = [each.gradients.get(name) if name in names else None for each, names in pairs for name in NAMES]
        if not keep_graph:
            layer.release()
        return None, *flat


def make_pass(setting: Setting, tensors: dict[str, Tensor], plan: Plan) -> Pass:
    """The pass of a direction; numba is imported here, where a kernel runs."""
    from harken.kernels.recurrent.cpu.gru import GRUAfterPass, GRUBeforePass
    from harken.kernels.recurrent.cpu.lstm import LSTMPass
    from harken.kernels.recurrent.cpu.rnn import RNNPass

    gru = GRUAfterPass if setting.kind.reset == "after" else GRUBeforePass
    return {"rnn": RNNPass, "lstm": LSTMPass, "gru": gru}[setting.kind.name](setting, tensors, plan)


def _groups(flat: Any) -> list[Any]:
    return [flat[at : at + len(NAMES)] for at in range(0, len(flat), len(NAMES))]


def run_cpu(call: Call) -> Result:
    """One layer: packed x (N, I) -> packed (N, R x directions), the last state of each direction."""
    kind: CellKind = call.kind  # type: ignore[assignment]  # the rule takes no other calls
    settings, flat = [], []
    for each in call.directions:
        settings.append(Setting(kind, each.reverse, each.noise.keep, each.noise.stay))
        given = {"values": call.x, **each.weights(kind)}
        given |= dict(zip(("hidden", "cell"), call.start(each, call.layout.batch, call.x), strict=False))
        flat += [given.get(name) for name in NAMES]
    if not torch.is_grad_enabled():  # a Function is told what requires gradients, not whether they are computed now
        flat = [None if tensor is None else tensor.detach() for tensor in flat]
    output, *last = _Operator.apply(_Layer(settings, Plan(call.layout.batch_sizes, call.layout.batch)), *flat)
    parts = len(last) // len(settings)
    return Result(output, tuple(torch.stack(last[part::parts]) for part in range(parts)))


@dataclass(frozen=True)
class Rule:
    """The fewest numbers in U for which the kernel was measured to be faster (`benchmarks/cpu_recurrent.py --rule`)."""

    loop: int  # than the reference loop, where torch has none for the cell
    full: int  # than torch's loop, with gradients
    full_inference: int  # and without
    unequal: int  # the same with rows of unequal length
    unequal_inference: int
    rows: int  # at each step, compared with torch's loop, where all rows run at all steps


NEVER = 2**62
RULES = {
    "lstm": Rule(2**11, 2**20, NEVER, 2**10, 2**19, rows=48),
    "gru": Rule(2**11, 2**13, 2**17, 2**10, 2**19, rows=4),
    "rnn": Rule(2**12, 2**18, 2**18, 2**14, 2**18, rows=4),
}
MIN_STEPS, MIN_ROWS = 8, 24  # with fewer, preparing the weights costs more than it saves
MIN_STEPS_BESIDE_TORCH = 16  # torch's loops prepare less


def why_not_cpu(call: Call) -> str | None:
    """float32 on a CPU with numba and oneDNN, for the sizes of `RULES`."""
    if call.trace or call.kind is None or not call.x.is_cpu or takes_torch_operators():
        return "gates are traced, the cell has no kernels, or it is not called directly on a CPU"
    if call.x.shape[0] * call.x.shape[1] < MIN_ROWS:
        return "there are too few rows"
    if not call.x.dtype == call.weight_hh.dtype == torch.float32 or torch.is_autocast_enabled("cpu"):
        return "the layer does not compute in float32"
    if not is_available():
        return "numba or oneDNN is missing"
    layout, rule, has_loop = call.layout, RULES[call.kind.name], has_torch_loop(call)
    steps, rows = len(layout.batch_sizes), sum(layout.batch_sizes)
    if steps < (MIN_STEPS_BESIDE_TORCH if has_loop else MIN_STEPS) or rows < MIN_ROWS:
        return "there are too few steps or rows"
    if not has_loop:
        least = rule.loop
    elif torch.is_grad_enabled() and not layout.is_rectangular:
        least = rule.unequal
    elif rows < steps * (rule.rows if layout.full else 4):
        return "there are too few rows at each step"
    elif torch.is_grad_enabled():
        least = rule.full
    else:
        least = rule.full_inference if layout.full else rule.unequal_inference
    return None if call.weight_hh.numel() >= least else "the recurrent weights are too small to pay for their packing"


CPU = RecurrentBackend("cpu", why_not_cpu, run_cpu)
