"""Every kernel of ours once, on shapes that fill no tile: what a memory checker is to look at.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python -m benchmarks.gpu_memcheck

Additive attention (masked, causal, with its gradients, once with dropout), the looks of a decoder's loop,
and recurrent layers in both directions with rows of unequal length, one of them empty. A checker makes them a hundred
times slower, so there are few and they are small; without torch's cache every tensor has bounds of its own. The last
line says that all of them ran and gave numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.additive_attention.operator import additive_attention
from harken.kernels.decoder_loop.attention import DeferredAttention
from harken.kernels.recurrent.triton import backend
from harken.nn import GRU, LSTM

LAYERS: list[tuple[Any, dict[str, Any]]] = [
    (LSTM, {"peephole": "diagonal"}),
    (LSTM, {"peephole": "diagonal", "layer_norm": True}),
    (GRU, {}),
    (GRU, {"reset": "before", "layer_norm": True}),
]


def finite(parts: dict[str, Tensor]) -> bool:
    """Whether all of them are numbers; says which are not."""
    wrong = {name: int((~part.isfinite()).sum()) for name, part in parts.items()}
    wrong = {name: count for name, count in wrong.items() if count}
    if wrong:
        print("not finite:", wrong)
    return not wrong


def attention(shape: tuple[int, int, int, int, int], dtype: torch.dtype, drop: float) -> bool:
    """Groups, targets, sources, depth, width: forward and backward."""
    groups, targets, sources, depth, width = shape
    sizes = ((groups, targets, depth), (groups, sources, depth), (depth,), (groups, sources, width))
    parts = [torch.randn(size, device="cuda").to(dtype).requires_grad_() for size in sizes]
    mask = torch.rand(groups, targets, sources, device="cuda") < 0.5
    mask[..., 0] = True
    context = additive_attention(*parts, mask=mask, causal=drop == 0, dropout=drop)
    gradients = torch.autograd.grad(context.float().square().sum(), parts)
    names = (f"attention {shape} {name}" for name in ("context", "queries", "keys", "vector", "values"))
    return finite(dict(zip(names, [context, *gradients], strict=True)))


def looks() -> bool:
    """Two looks of a decoder at the same memory."""
    keys, memory = (torch.randn(3, 19, 37, device="cuda", requires_grad=True) for _ in range(2))
    query, vector = (torch.randn(size, device="cuda", requires_grad=True) for size in ((3, 37), (37,)))
    looking = DeferredAttention(keys, memory, torch.rand(3, 19, device="cuda") < 0.7, vector)
    context = looking(query) + looking(query * 2)
    gradients = torch.autograd.grad(context.sum(), [keys, memory, query, vector])
    names = (f"looks {name}" for name in ("seen", "keys", "memory", "query", "vector"))
    return finite(dict(zip(names, [context, *gradients], strict=True)))


def recurrent(kind: Any, options: dict[str, Any]) -> bool:
    """Five rows, both directions, 37 units: three blocks of units, the last one partly empty."""
    layer = kind(11, 37, batch_first=True, bidirectional=True, **options).cuda().to(torch.bfloat16)
    values = torch.randn(5, 4, 11, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    lengths = torch.tensor([4, 0, 2, 3, 1])
    assert layer.backend(values, lengths) == "triton"
    output = layer(values, lengths=lengths)[0]
    gradients = torch.autograd.grad(output.float().square().sum(), [values, *layer.parameters()])
    names = (f"{kind.__name__} {options} {name}" for name in ("y", "x", *dict(layer.named_parameters())))
    return finite(dict(zip(names, [output, *gradients], strict=True)))


def main() -> None:
    torch.manual_seed(0)
    backend.MIN_STEPS.update({True: 1, False: 1})
    fine: list[bool] = [
        attention((3, 9, 7, 5, 3), torch.float32, 0.0),
        attention((2, 67, 70, 33, 130), torch.bfloat16, 0.0),
    ]
    fine += [attention((2, 17, 21, 33, 20), torch.bfloat16, 0.2), looks()]
    fine += [recurrent(kind, options) for kind, options in LAYERS]
    torch.cuda.synchronize()
    print(f"{sum(fine)} of {len(fine)} ran and gave numbers")


if __name__ == "__main__":
    main()
