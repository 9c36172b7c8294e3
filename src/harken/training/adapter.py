"""LoRA: low-rank updates of a frozen network, trained and saved alone. Hu et al. (2021).

    W = W0 + B A        W0 (out, in) is frozen; A (r, in) and B (out, r) are trained, B = 0 at first

The network always has the merged weights W, so its layers, kernels and captured graphs are those of any network, and a
trained adapter computes what its merged weights do. After a backward pass the chain rule gives the gradients of the
factors from that of W (`project`), and after an update W is computed anew (`merge`):

    dA = B^T dW        dB = dW A^T

Adapted are the matrices between hidden states (`hidden_matrices`): attention, feed-forward and recurrent layers, no
embeddings and no output layer. What the paper writes as a factor alpha / r is the scale of A's first values here.

>>> network = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
>>> adapter = Adapter(network, rank=2, base="digest of the network's file")
>>> sum(value.numel() for value in adapter.parameters()), [value.requires_grad for value in network.parameters()]
(512, [True, False, True, False])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.errors import UserError
from harken.training.optimizers import hidden_matrices
from harken.training.weights import BASE, DOWN, UP, merged


class Adapter(nn.Module):
    """The factors of a network's matrices; all else of the network is frozen.

    Args:
        model: with the weights of the base.
        rank: r; matrices for which factors would have as many numbers as themselves stay frozen.
        base: the digest of the model file that the weights are from.

    Raises:
        UserError: the rank is too large for every matrix.
    """

    def __init__(self, model: nn.Module, rank: int, base: str) -> None:
        super().__init__()
        matrices = {id(value) for value in hidden_matrices(model) if rank * sum(value.shape) < value.numel()}
        model.requires_grad_(False)
        self.matrices = {
            name: value.requires_grad_() for name, value in model.named_parameters() if id(value) in matrices
        }
        if not self.matrices:
            raise UserError(f"adapt.rank is {rank}, too large for the matrices of this network; give a smaller one")
        self.metadata = {BASE: base}
        self.down, self.up = nn.ParameterList(), nn.ParameterList()  # A and B
        for number, value in enumerate(self.matrices.values()):
            rows, columns = value.shape
            self.register_buffer(f"original_{number}", value.detach().clone(), persistent=False)
            self.down.append(nn.init.normal_(value.new_empty(rank, columns), std=rank**-0.5))
            self.up.append(value.new_zeros(rows, rank))

    @property
    def title(self) -> str:
        """The adapter in a few words."""
        numbers, count = sum(value.numel() for value in self.parameters()), len(self.matrices)
        return f"of rank {len(self.down[0])}: {numbers:,} parameters for {count} matrices"

    def project(self) -> None:
        """Leave the gradients of the factors in `.grad`, from those of the matrices; None where a matrix has none."""
        for value, down, up in zip(self.matrices.values(), self.down, self.up, strict=True):
            grad = value.grad
            down.grad, up.grad = (None, None) if grad is None else (up.detach().T @ grad, grad @ down.detach().T)

    @torch.no_grad()
    def merge(self) -> None:
        """Compute the network's matrices from the factors, in place."""
        for number, value in enumerate(self.matrices.values()):
            value.copy_(merged(self.get_buffer(f"original_{number}"), self.down[number], self.up[number]))

    def tensors(self) -> dict[str, Tensor]:
        """The factors by the names of their matrices, as `harken.training.weights.read_weights` takes them."""
        factors = zip(self.matrices, self.down, self.up, strict=True)
        return {
            f"{side}.{name}": value for name, *pair in factors for side, value in zip((DOWN, UP), pair, strict=True)
        }
