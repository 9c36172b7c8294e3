"""Without the division by sqrt(d_k), softmax saturates as d_k grows.

q . k = sum over d_k features of q_i k_i      mean 0, variance d_k, where q and k are independent of variance 1

So scores spread as sqrt(d_k): softmax puts all its weight on one key, and its derivative p_i (1 - p_i), which is all
the gradient that reaches queries and keys, goes to 0. Divided by sqrt(d_k) the scores keep a variance of 1.
Vaswani et al. (2017), section 3.2.1.

Measured twice: on random queries and keys, which is the claim; and in one head of `CrossAttention` that learns to look
a word up, at its start and after training, which is what the claim is for.
"""

from __future__ import annotations

import math
from itertools import chain, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import learn, mean
from harken.lab.pool import sweep
from harken.nn import CrossAttention, DotScore, ScaledDotScore, masked_softmax

KEYS = 64  # each query chooses among so many
WIDTHS = (4, 16, 64, 256, 1024, 4096)
HEAD_WIDTHS = (16, 64, 256)
SCORES = {"dot": DotScore, "scaled": ScaledDotScore}
WORDS = {"dot": "q·k", "scaled": "q·k / √d_k"}

SATURATED = 0.9  # undivided, at the widest: the mean largest weight is above this ...
GONE = 0.25  # ... and the gradient is below this share of what it is at that width where scores are divided
STEADY = 1.5  # divided: neither changes by more than this factor over all widths
SHARPER = 2.0  # in the head, before training, at its widest: the undivided largest weight is so many times the divided
SIZES: Sizes = {"queries": (1024, 64), "updates": (500, 6), "seeds": (3, 1)}


def weigh(scores: Tensor, direction: Tensor) -> dict[str, float]:
    """Scores (R, S) -> mean largest weight, mean entropy (1: all alike), mean |gradient| of weights . direction."""
    scores = scores.detach().requires_grad_()
    weights = masked_softmax(scores)
    (gradient,) = torch.autograd.grad((weights * direction).sum(), scores)
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1) / math.log(scores.shape[-1])
    return {
        "largest": weights.amax(-1).mean().item(),
        "entropy": entropy.mean().item(),
        "gradient": gradient.norm(dim=-1).mean().item(),
    }


def random_weights(kind: str, width: int, queries: int, seed: int) -> dict[str, float]:
    """Queries and keys of unit variance, each query with keys of its own."""
    torch.manual_seed(seed)
    score = SCORES[kind](width, width)
    scores = torch.cat([score(torch.randn(16, width), torch.randn(16, KEYS, width)) for _ in range(queries // 16)])
    return weigh(scores, torch.randn(queries, KEYS))


class Finder(nn.Module):
    """Slots hold a name and a content; asked for a name, one head answers with the content of its slot."""

    def __init__(self, kind: str, width: int, names: int, contents: int) -> None:
        super().__init__()
        self.names, self.contents = nn.Embedding(names, width), nn.Embedding(contents, width)
        self.attention = CrossAttention(width, 1, score=kind)
        self.answer = nn.Linear(width, contents)

    def forward(self, queries: Tensor, names: Tensor, contents: Tensor) -> tuple[Tensor, Tensor]:
        """(B,), (B, S), (B, S) -> logits (B, contents) and weights (B, S)."""
        memory = self.attention.keys_values(self.names(names) + self.contents(contents))
        content, weights = self.attention.with_weights(self.names(queries)[:, None], memory)
        return self.answer(content[:, 0]), weights[:, 0, 0]


def train_head(kind: str, width: int, steps: int, seed: int) -> dict[str, Any]:
    """Largest weight before and after training, losses, updates until they are halved, share of right answers."""
    torch.manual_seed(seed)
    slots, names, contents = 16, 32, 8
    model = Finder(kind, width, names, contents)

    def ask(rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        order = torch.rand(rows, names).argsort(-1)[:, :slots]  # (B, S): names that differ
        held, slot = torch.randint(contents, (rows, slots)), torch.randint(slots, (rows, 1))
        return order.gather(1, slot)[:, 0], order, held, held.gather(1, slot)[:, 0]

    def look() -> tuple[float, float]:
        with torch.no_grad():
            *question, right = ask(512)
            logits, weights = model(*question)
        return weights.amax(-1).mean().item(), (logits.argmax(-1) == right).float().mean().item()

    def loss(step: int) -> Tensor:
        *question, right = ask(64)
        return F.cross_entropy(model(*question)[0], right)

    start, _ = look()
    losses = learn(model, loss, steps, 2e-3)
    end, right = look()
    smooth = [sum(losses[step : step + 10]) / 10 for step in range(max(steps - 10, 0))]
    halved = next((step for step, value in enumerate(smooth) if value < math.log(contents) / 2), steps)
    return {"start": start, "end": end, "right": right, "halved": halved, "losses": losses[:: max(1, steps // 50)]}


def mean_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over seeds of every number; curves are left out."""
    return {key: mean(run[key] for run in runs) for key in runs[0] if key != "losses"}


def judge(
    random: dict[str, dict[int, dict[str, float]]], head: dict[str, dict[int, dict[str, Any]]]
) -> tuple[bool | None, str]:
    """Score -> width -> the result of `weigh`; score -> width -> the result of `train_head`."""
    few, many = min(random["dot"]), max(random["dot"])
    bare, divided = random["dot"], random["scaled"]
    left = bare[many]["gradient"] / divided[many]["gradient"]
    saturates = bare[many]["largest"] > SATURATED and left < GONE
    changes = [
        max(values) / max(min(values), 1e-30)
        for values in ([at[key] for at in divided.values()] for key in ("largest", "gradient"))
    ]
    widest = max(head["dot"])
    sharper = head["dot"][widest]["start"] / head["scaled"][widest]["start"]
    bad, good = head["dot"][widest], head["scaled"][widest]
    verdict = (
        f"undivided, the largest of {KEYS} weights goes from {bare[few]['largest']:.2f} at d_k = {few} to "
        f"{bare[many]['largest']:.2f} at {many}, where the gradient is {left:.0%} of that of divided scores; divided, "
        f"both stay within a factor of {max(changes):.2f}; a head of width {widest} starts with a largest weight of "
        f"{bad['start']:.2f} undivided and {good['start']:.2f} divided, halves its loss in {bad['halved']:.0f} and "
        f"{good['halved']:.0f} updates, and in the end answers {bad['right']:.0%} and {good['right']:.0%} right"
    )
    ahead = [width for width in head["dot"] if head["dot"][width]["right"] > head["scaled"][width]["right"]]
    for width in ahead:
        shares = " and ".join(f"{head[kind][width]['right']:.0%}" for kind in SCORES)
        verdict += f"; at width {width} the undivided head is ahead, with {shares} right"
    return grade(saturates and max(changes) < STEADY and sharper > SHARPER, saturates), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Random vectors of every width, then the head."""
    queries, steps, seeds = settings.resolve(SIZES)
    widths, head_widths = (WIDTHS[::2], HEAD_WIDTHS[:2]) if settings.quick else (WIDTHS, HEAD_WIDTHS)

    def describe(width: int, kind: str, seed: int) -> str:
        return f"{kind}, width {width}"

    trained = sweep(
        lambda width, kind, seed: train_head(kind, width, steps, seed),
        product(reversed(head_widths), SCORES),
        settings,
        progress,
        seeds,
        describe,
        (0.0, 0.9),
    )
    head = {kind: {width: mean_of(trained[width, kind]) for width in head_widths} for kind in SCORES}
    weighed = sweep(
        lambda width, kind, seed: random_weights(kind, width, queries, seed),
        product(reversed(widths), SCORES),
        settings,
        progress,
        seeds,
        describe,
        (0.9, 1.0),
    )
    random = {kind: {width: mean_of(weighed[width, kind]) for width in widths} for kind in SCORES}
    holds, verdict = judge(random, head)
    columns = ["vectors", "d_k", *(f"{what}, {WORDS[kind]}" for what in ("largest", "gradient") for kind in SCORES)]
    columns += [f"right after training (updates to half the loss), {WORDS[kind]}" for kind in SCORES]
    rows: list[list[Any]] = [
        ["random", width, *(random[kind][width][key] for key in ("largest", "gradient") for kind in SCORES), "", ""]
        for width in widths
    ]
    rows += [
        ["head at its start", width, *(head[kind][width]["start"] for kind in SCORES), "", ""]
        + [f"{head[kind][width]['right']:.1%} ({head[kind][width]['halved']:.0f})" for kind in SCORES]
        for width in head_widths
    ]
    measured = {"random": random, "head": head, "runs": [*chain(*trained.values()), *chain(*weighed.values())]}
    return Findings(columns, rows, holds, verdict, _figure(weighed, trained, queries, seeds), measured)


def _figure(weighed: dict[Any, list[Any]], trained: dict[Any, list[Any]], queries: int, seeds: int) -> Figure:
    widths = sorted({width for width, _ in weighed})

    def lines(title: str, label: str, key: str, marks: list[Mark], log_y: bool = False) -> Lines:
        series = []
        for kind in SCORES:
            by_seed = zip(*([run[key] for run in weighed[width, kind]] for width in widths), strict=True)
            series.append(Series.of_runs(WORDS[kind], widths, list(by_seed), mean))
        limits = None if log_y else (0.0, 1.05)
        return Lines(title, "width d_k", label, series, log_x=True, log_y=log_y, marks=marks, y_limits=limits)

    widest = max(width for width, _ in trained)
    learning = []
    for kind in SCORES:
        curves = [run["losses"] for run in trained[widest, kind]]
        learning.append(Series.of_runs(WORDS[kind], [10 * index for index in range(len(curves[0]))], curves, mean))
    panels = [
        lines("Random vectors: the largest weight", "mean largest weight", "largest", [Mark(1 / KEYS, "all alike")]),
        lines("… how evenly the weights are spread", "entropy / log S", "entropy", [Mark(1.0, "all alike")]),
        lines("… and the gradient that is left", "|gradient| by the scores", "gradient", [], log_y=True),
        Lines(f"A head of width {widest} learns to look up", "update", "cross-entropy", learning, dots=False),
    ]
    note = (
        f"{queries} queries, {KEYS} keys each, features of variance 1. The head finds one of 16 slots; "
        f"mean and range of {seeds} seeds."
    )
    return Figure("Softmax saturates where scores are not divided by √d_k", panels, note)


EXPERIMENT = Experiment(
    name="saturation",
    statement="Without the division by the square root of d_k, softmax saturates as d_k grows.",
    shows="weights and gradients of attention against the width of queries and keys, divided by √d_k and not",
    run=run,
    parts=(
        Part(
            "arithmetic", "scores of vectors of variance 1 have variance d_k, and 1 where they are divided by its root"
        ),
        Part("empirical", "undivided, the largest weight approaches 1 and the gradient vanishes"),
        Part("empirical", "a head that learns to look a word up starts sharper where scores are not divided"),
    ),
    sizes=SIZES,
)
