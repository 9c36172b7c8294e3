"""The loop of an LSTM with a soft window, with its backward pass written by hand.

The reference is `harken.nn.recurrent.windowed_lstm.WindowedLSTM.reference`. Autograd would record some thirty small
operations per step and go through them one by one; on a CPU that costs more than the products. Here a step is eighteen
calls into buffers that are allocated once, and the gradients of the weights, of their biases and of the characters are
one product each for all steps. Forward and backward pass of the layer of `penfont-handwriting` (23 x 86 points, 128
units) take 38.5 ms with it and 49.9 ms by the reference, with 256 units 77 and 92 ms. Without gradients the reference
is faster, so it is taken there (`benchmarks/records/2026-11-19-windowed-lstm.md`).

Shapes: B rows, T steps, H units, K Gaussians, U characters of width E.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.autograd import first_order, takes_torch_operators
from harken.kernels.backend import Backend

sigmoid_backward = torch.ops.aten.sigmoid_backward.default
tanh_backward = torch.ops.aten.tanh_backward.default


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # (T, B, 4 H) W x + b
        joint: Tensor,  # (4 H, H + E) from [h; w]
        project: Tensor,  # (3 K, H)
        bias: Tensor,  # (3 K)
        characters: Tensor,  # (B, U, E)
        mask: Tensor,  # (B, U)
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, rows, width = inputs.shape[0], inputs.shape[1], project.shape[1]
        gaussians, (count, seen_width) = project.shape[0] // 3, characters.shape[1:]
        gates = inputs.clone()  # (T, B, 4 H), in the end i, f, g, o
        before = inputs.new_zeros(steps + 1, rows, width + seen_width)  # [h; w] before each step
        cell = inputs.new_zeros(steps + 1, rows, width)
        tanh_cell = inputs.new_empty(steps, rows, width)  # tanh C
        moves = inputs.new_empty(steps, rows, 3 * gaussians)  # α, β, Δ
        away = inputs.new_empty(steps, rows, gaussians, count)  # κ - u - 1/2
        bumps = torch.empty_like(away)
        weights = inputs.new_empty(steps, rows, count)
        position = inputs.new_zeros(rows, gaussians)
        middles = torch.arange(count, device=inputs.device, dtype=inputs.dtype) + 0.5
        from_before, from_hidden = joint.t(), project.t()
        for t in range(steps):
            gate = gates[t].addmm_(before[t], from_before)
            gate[:, : 2 * width].sigmoid_()
            gate[:, 2 * width : 3 * width].tanh_()
            gate[:, 3 * width :].sigmoid_()
            i, f, g, o = gate.chunk(4, -1)
            torch.mul(f, cell[t], out=cell[t + 1]).addcmul_(i, g)
            torch.tanh(cell[t + 1], out=tanh_cell[t])
            hidden = o * tanh_cell[t]
            before[t + 1, :, :width] = hidden
            weight, sharp, step = torch.addmm(bias, hidden, from_hidden, out=moves[t]).exp_().chunk(3, -1)
            position += step
            torch.sub(position[:, :, None], middles, out=away[t])
            torch.mul(away[t].square(), sharp[:, :, None], out=bumps[t]).neg_().exp_()
            torch.mul(torch.bmm(weight[:, None], bumps[t])[:, 0], mask, out=weights[t])
            before[t + 1, :, width:] = torch.bmm(weights[t][:, None], characters)[:, 0]
        ctx.save_for_backward(
            joint, project, characters, mask, gates, before, cell, tanh_cell, moves, away, bumps, weights
        )
        ctx.mark_non_differentiable(weights)
        return before[1:, :, :width], before[1:, :, width:], weights

    @staticmethod
    @first_order("the kernel of an LSTM with a window")
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        joint, project, characters, mask, gates, before, cell, tanh_cell, moves, away, bumps, weights = (
            ctx.saved_tensors
        )
        steps, rows, width = tanh_cell.shape
        grad_hidden, grad_seen = gradients[0], gradients[1]
        grad_gates, grad_moves = torch.empty_like(gates), torch.empty_like(moves)
        grad_before = before.new_zeros(rows, before.shape[2])  # of [h; w], from the step after
        grad_cell, grad_position = torch.zeros_like(cell[0]), before.new_zeros(rows, moves.shape[2] // 3)
        grad_all_seen = torch.empty_like(before[1:, :, width:])
        for t in reversed(range(steps)):
            weight, sharp, step = moves[t].chunk(3, -1)
            grad_seen_now = torch.add(grad_seen[t], grad_before[:, width:], out=grad_all_seen[t])
            grad_weights = torch.bmm(characters, grad_seen_now[:, :, None])[:, :, 0] * mask  # (B, U)
            bump = bumps[t]
            through = bump * grad_weights[:, None]  # (B, K, U)
            grad_weight, grad_sharp, grad_step = grad_moves[t].chunk(3, -1)
            torch.mul(through.sum(-1), weight, out=grad_weight)
            through_distance = through.mul_(weight[:, :, None]).mul_(away[t])  # α φ' (κ - u)
            grad_position -= 2 * sharp * through_distance.sum(-1)
            torch.mul(through_distance.mul_(away[t]).sum(-1), sharp, out=grad_sharp).neg_()
            torch.mul(grad_position, step, out=grad_step)
            grad_hidden_now = torch.addmm(grad_hidden[t] + grad_before[:, :width], grad_moves[t], project)
            i, f, g, o = gates[t].chunk(4, -1)
            grad_cell += tanh_backward(grad_hidden_now * o, tanh_cell[t])
            grad_i, grad_f, grad_g, grad_o = grad_gates[t].chunk(4, -1)
            grad_i.copy_(sigmoid_backward(grad_cell * g, i))
            grad_f.copy_(sigmoid_backward(grad_cell * cell[t], f))
            grad_g.copy_(tanh_backward(grad_cell * i, g))
            grad_o.copy_(sigmoid_backward(grad_hidden_now * tanh_cell[t], o))
            grad_cell *= f
            torch.mm(grad_gates[t], joint, out=grad_before)
        flat, hidden = grad_gates.flatten(0, 1), before[1:, :, :width].reshape(steps * rows, width)
        flat_moves = grad_moves.flatten(0, 1)
        return (
            grad_gates,
            flat.t() @ before[:-1].flatten(0, 1),
            flat_moves.t() @ hidden,
            flat_moves.sum(0),
            torch.bmm(weights.permute(1, 2, 0), grad_all_seen.transpose(0, 1)),  # (B, U, E)
            None,
        )


def windowed_lstm(
    inputs: Tensor, joint: Tensor, project: Tensor, bias: Tensor, characters: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (B, T, 4 H) and what the loop is made of -> h (B, T, H), w (B, T, E), φ (B, T, U) without a gradient."""
    dtype = joint.dtype
    by_time = inputs.to(dtype).transpose(0, 1).contiguous()
    by_step = _Loop.apply(by_time, joint, project, bias, characters.to(dtype), mask.to(dtype))
    hidden, view, weights = (value.transpose(0, 1) for value in by_step)
    return hidden, view, weights


def why_not_by_hand() -> str | None:
    """The loop runs wherever gradients are computed and its function is called directly."""
    if not torch.is_grad_enabled():
        return "the reference is faster without gradients"
    return "torch.compile, torch.func or torch.jit records the call" if takes_torch_operators() else None


WINDOWED_LSTM = Backend("by hand", why_not_by_hand, windowed_lstm)
