"""The loop of an LSTM with a soft window, forward and back by hand. Definition:
`harken.nn.recurrent.windowed_lstm.definition`.

Autograd would note some thirty small operations a step and walk them back one by one; on a CPU that costs more than the
products. Here a step is eighteen calls into buffers that are made once, the way back is written out, and the gradients
of the weights, of their biases and of the characters are made by one product each for all steps.

Shapes: B rows, T steps, H units, K Gaussians, U characters of width E.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_slope = torch.ops.aten.sigmoid_backward.default
tanh_slope = torch.ops.aten.tanh_backward.default


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
        memory = inputs.new_zeros(steps + 1, rows, width)
        shown = inputs.new_empty(steps, rows, width)  # tanh C
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
            write, forget, candidate, show = gate.chunk(4, -1)
            torch.mul(forget, memory[t], out=memory[t + 1]).addcmul_(write, candidate)
            torch.tanh(memory[t + 1], out=shown[t])
            hidden = show * shown[t]
            before[t + 1, :, :width] = hidden
            weight, sharp, step = torch.addmm(bias, hidden, from_hidden, out=moves[t]).exp_().chunk(3, -1)
            position += step
            torch.sub(position[:, :, None], middles, out=away[t])
            torch.mul(away[t].square(), sharp[:, :, None], out=bumps[t]).neg_().exp_()
            torch.mul(torch.bmm(weight[:, None], bumps[t])[:, 0], mask, out=weights[t])
            before[t + 1, :, width:] = torch.bmm(weights[t][:, None], characters)[:, 0]
        ctx.save_for_backward(
            joint, project, characters, mask, gates, before, memory, shown, moves, away, bumps, weights
        )
        ctx.mark_non_differentiable(weights)
        return before[1:, :, :width], before[1:, :, width:], weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        joint, project, characters, mask, gates, before, memory, shown, moves, away, bumps, weights = ctx.saved_tensors
        steps, rows, width = shown.shape
        hidden_gradient, seen_gradient = gradients[0], gradients[1]
        slopes, move_slopes = torch.empty_like(gates), torch.empty_like(moves)
        pulled = before.new_zeros(rows, before.shape[2])  # of [h; w], from the step after
        memory_pulled, position_pulled = torch.zeros_like(memory[0]), before.new_zeros(rows, moves.shape[2] // 3)
        seen_slopes = torch.empty_like(before[1:, :, width:])
        for t in reversed(range(steps)):
            weight, sharp, step = moves[t].chunk(3, -1)
            seen_slope = torch.add(seen_gradient[t], pulled[:, width:], out=seen_slopes[t])
            weight_slope = torch.bmm(characters, seen_slope[:, :, None])[:, :, 0] * mask  # (B, U)
            bump = bumps[t]
            through = bump * weight_slope[:, None]  # (B, K, U)
            weight_move, sharp_move, step_move = move_slopes[t].chunk(3, -1)
            torch.mul(through.sum(-1), weight, out=weight_move)
            leaning = through.mul_(weight[:, :, None]).mul_(away[t])  # α φ' (κ - u)
            position_pulled -= 2 * sharp * leaning.sum(-1)
            torch.mul(leaning.mul_(away[t]).sum(-1), sharp, out=sharp_move).neg_()
            torch.mul(position_pulled, step, out=step_move)
            hidden_slope = torch.addmm(hidden_gradient[t] + pulled[:, :width], move_slopes[t], project)
            write, forget, candidate, show = gates[t].chunk(4, -1)
            memory_pulled += tanh_slope(hidden_slope * show, shown[t])
            write_slope, forget_slope, candidate_slope, show_slope = slopes[t].chunk(4, -1)
            write_slope.copy_(sigmoid_slope(memory_pulled * candidate, write))
            forget_slope.copy_(sigmoid_slope(memory_pulled * memory[t], forget))
            candidate_slope.copy_(tanh_slope(memory_pulled * write, candidate))
            show_slope.copy_(sigmoid_slope(hidden_slope * shown[t], show))
            memory_pulled *= forget
            torch.mm(slopes[t], joint, out=pulled)
        flat, hidden = slopes.flatten(0, 1), before[1:, :, :width].reshape(steps * rows, width)
        moved = move_slopes.flatten(0, 1)
        return (
            slopes,
            flat.t() @ before[:-1].flatten(0, 1),
            moved.t() @ hidden,
            moved.sum(0),
            torch.bmm(weights.permute(1, 2, 0), seen_slopes.transpose(0, 1)),  # (B, U, E)
            None,
        )


def windowed_lstm(
    inputs: Tensor, joint: Tensor, project: Tensor, bias: Tensor, characters: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (B, T, 4 H) and what the loop is made of -> h (B, T, H), w (B, T, E), φ (B, T, U) without a gradient."""
    dtype = joint.dtype
    by_time = inputs.to(dtype).transpose(0, 1).contiguous()
    found = _Loop.apply(by_time, joint, project, bias, characters.to(dtype), mask.to(dtype))
    hidden, seen, weights = (value.transpose(0, 1) for value in found)
    return hidden, seen, weights
