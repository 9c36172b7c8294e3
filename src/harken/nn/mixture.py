"""Mixture density of pen movements: a mixture of bivariate Gaussians and Bernoulli marks.

p(x, y, m) = [ Σ_j π_j N((x, y) | μ_j, σ_j, ρ_j) ]  Π_i Bernoulli(m_i | e_i)

log N = -log 2π - log σ_x - log σ_y - ½ log(1 - ρ²) - Z / (2 (1 - ρ²)),   Z = u² + v² - 2 ρ u v
u = (x - μ_x) / σ_x,  v = (y - μ_y) / σ_y

The outputs of a network (..., 6 M + marks) become π = softmax(π̂), μ = μ̂, σ = floor + exp(σ̂), ρ = 0.99 tanh(ρ̂) and
e = sigmoid(ê). The floor and the 0.99 keep the density finite where points repeat exactly. A sampling `bias` b > 0
sharpens: π ∝ exp(π̂ (1 + b)), σ = floor + exp(σ̂ - b), logits ê (1 + b). Graves (2013), equations 16 to 27, 61 and 62.

Written out rather than by `torch.distributions`, whose `MixtureSameFamily` of `MultivariateNormal` takes 4 times as
long, forward and backward (32 x 300 points, 20 Gaussians, one CPU thread: 58 ms against 14 ms).

>>> head = PenMixture.of(torch.zeros(1, 6 * 2 + 1), marks=1, floor=0.0)
>>> round(head.log_density(torch.zeros(1, 2), torch.ones(1, 1)).item(), 4)  # -log 2π - log 2
-2.531
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

LARGEST_CORRELATION = 0.99
FLOOR = 0.01  # the smallest standard deviation


def parameters_of(mixtures: int, marks: int) -> int:
    """Outputs of the network for each point.

    >>> parameters_of(20, 1)
    121
    """
    return 6 * mixtures + marks


@dataclass(frozen=True)
class PenMixture:
    """The density of points, one for each of the leading sizes."""

    log_weights: Tensor  # (..., M) log π
    means: Tensor  # (..., M, 2)
    deviations: Tensor  # (..., M, 2)
    correlations: Tensor  # (..., M)
    mark_logits: Tensor  # (..., marks)

    @classmethod
    def of(cls, values: Tensor, marks: int, bias: float = 0.0, floor: float = FLOOR) -> PenMixture:
        """From the outputs (..., 6 M + marks) of a network, in float32 at least."""
        values = values if values.dtype == torch.float64 else values.float()
        count = (values.shape[-1] - marks) // 6  # M
        if count < 1 or values.shape[-1] != parameters_of(count, marks):
            raise ValueError(f"{values.shape[-1]} numbers are not 6 for each Gaussian and {marks} marks")
        weights, means, log_deviations, correlations, mark_logits = values.split(
            [count, 2 * count, 2 * count, count, marks], -1
        )
        return cls(
            torch.log_softmax(weights * (1 + bias), -1),
            means.unflatten(-1, (count, 2)),
            floor + torch.exp(log_deviations.clamp(max=10.0) - bias).unflatten(-1, (count, 2)),
            LARGEST_CORRELATION * torch.tanh(correlations),
            mark_logits * (1 + bias),
        )

    def log_density(self, points: Tensor, marks: Tensor) -> Tensor:
        """Log-density (...) of movements (..., 2) and marks (..., marks) of 0 and 1."""
        u, v = ((points[..., None, :] - self.means) / self.deviations).unbind(-1)  # (..., M)
        rest = 1 - self.correlations.square()
        distance = u.square() + v.square() - 2 * self.correlations * u * v
        normal = -math.log(2 * math.pi) - self.deviations.log().sum(-1) - 0.5 * rest.log() - distance / (2 * rest)
        log_places = torch.logsumexp(self.log_weights + normal, -1)
        log_marks = -F.binary_cross_entropy_with_logits(self.mark_logits, marks, reduction="none").sum(-1)
        return log_places + log_marks

    def sample(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Sample movements (..., 2) and marks (..., marks) of 0 and 1."""
        chosen = _sample_index(self.log_weights.exp(), generator)[..., None]  # (..., 1)
        pair = chosen[..., None].expand(*chosen.shape, 2)
        mean, deviation = self.means.gather(-2, pair)[..., 0, :], self.deviations.gather(-2, pair)[..., 0, :]
        correlation = self.correlations.gather(-1, chosen)[..., 0]
        first, second = torch.empty_like(mean).normal_(generator=generator).unbind(-1)
        together = correlation * first + (1 - correlation.square()).sqrt() * second
        points = mean + deviation * torch.stack([first, together], -1)
        uniform = torch.empty_like(self.mark_logits).uniform_(generator=generator)
        return points, (uniform < torch.sigmoid(self.mark_logits)).to(points.dtype)


def _sample_index(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index from each row of probabilities (..., M) -> (...)."""
    return torch.multinomial(probabilities.flatten(0, -2), 1, generator=generator).view(probabilities.shape[:-1])
