"""Stacking attention without a feed-forward layer only re-averages values.

one layer       X' = A X W        A: weights, each row at least 0 and of sum 1;  W = W_v W_o
l layers        X^l = (A_l .. A_1) X (W_1 .. W_l)

A product of row-stochastic matrices is row-stochastic: for its own weights the stack is a single average of the values
through a single linear map, whatever its depth. That is an identity, which `compose` checks and the verdict does not
count. What can fail is what is said to follow from it. As averages of averages become alike, the tokens do: the stack
loses rank (Dong et al., 2021), which residuals, feed-forward layers and norms counteract.

But the weights A are not a linear function of X. So two questions decide: do the tokens become alike (`likeness`)? And
can attention without feed-forward learn what no linear map can, the sign of x1 x2 (`train`): for a token alone, where
all weights are 1; among others; and with a mark, a token that is always the same, so that softmax over the two is a
gate?

>>> product, error = compose(depth=3, width=8, tokens=4, seed=1)
>>> torch.allclose(product.sum(-1), torch.ones(4, dtype=torch.float64)), bool((product >= 0).all()), error < EXACT
(True, True, True)
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.inspection.figure import Bars, Figure, Group, Lines, Mark, Panel, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import learn, mean, parameters
from harken.lab.pool import sweep
from harken.nn import EncoderBlock, FeedForward, SelfAttention

STACKS = ("attention alone", "and residual", "and feed-forward", "whole block")
COMPANY = {"alone": "alone", "others": "with 7 others", "mark": "with a mark"}

EXACT = 1e-10  # relative difference between the stack and one average, in float64: an identity, not a finding
SIZES: Sizes = {
    "depth": (12, 4),
    "width": (64, 16),
    "tokens": (16, 6),
    "seeds": (3, 1),
    "updates": (1000, 10),
    "rows": (32, 16),
}
ALIKE = 0.01  # what is left of the tokens' differences after all layers, attention alone, is below this share ...
APART = 0.30  # ... and above this in whole blocks
LEARNED, UNLEARNED = 0.95, 0.70  # shares of right signs; half is guessing, and the best straight cut gets 0.63


class Stack(nn.Module):
    """Layers of the kinds in STACKS; none has positions."""

    def __init__(self, kind: str, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.kind = kind
        self.layers = nn.ModuleList()
        for _ in range(depth):
            if kind == "whole block":
                self.layers.append(EncoderBlock(width, heads, 2 * width))
                continue
            self.layers.append(SelfAttention(width, heads))
            if kind == "and feed-forward":
                self.layers.append(FeedForward(width, 2 * width))

    def forward(self, values: Tensor) -> list[Tensor]:
        """(B, T, D) -> what each layer makes of it, (B, T, D), the input first."""
        outputs = [values]
        for layer in self.layers:
            if self.kind == "whole block":
                values = layer(values, None)
            else:
                values = layer(values) + (values if self.kind == "and residual" else 0.0)
            if self.kind != "and feed-forward" or isinstance(layer, FeedForward):
                outputs.append(values)
        return outputs


def start(module: nn.Module) -> None:
    """Weights that keep the size of what passes, and no biases: a constant added to all tokens makes them alike."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=part.in_features**-0.5)
            nn.init.zeros_(part.bias)


@torch.no_grad()
def compose(depth: int, width: int, tokens: int, seed: int) -> tuple[Tensor, float]:
    """The product A_l .. A_1 (T, T), and how far the stack is from that one average through one linear map."""
    torch.manual_seed(seed)
    layers = [SelfAttention(width, 1).double() for _ in range(depth)]
    first = values = torch.randn(1, tokens, width, dtype=torch.float64)
    averages, mapped = torch.eye(tokens, dtype=torch.float64), first
    for layer in layers:
        values, weights = layer.with_weights(values, None, False)
        averages = weights[0, 0] @ averages
        value = layer.query_key_value
        mapped = layer.output(F.linear(mapped, value.weight[2 * width :], value.bias[2 * width :]))  # token by token
    return averages, ((averages @ mapped - values).norm() / values.norm()).item()


@torch.no_grad()
def likeness(kind: str, depth: int, width: int, tokens: int, rows: int, seed: int) -> list[float]:
    """|X - mean token| / |X| after each layer, relative to the input's."""
    torch.manual_seed(seed)
    stack = Stack(kind, depth, width, 4).double()
    start(stack)
    outputs = stack(torch.randn(rows, tokens, width, dtype=torch.float64))
    shares = [((x - x.mean(1, keepdim=True)).norm() / x.norm()).item() for x in outputs]
    return [share / shares[0] for share in shares]


class Signs(nn.Module):
    """The sign of x1 x2 of every token: a linear map in, layers with residuals, a linear map out; no norms."""

    def __init__(self, feedforward: bool, width: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(3, width), nn.Linear(width, 2)
        self.attention = nn.ModuleList(SelfAttention(width, 4) for _ in range(2 if feedforward else 4))
        self.feedforward = nn.ModuleList(FeedForward(width, 2 * width) for _ in range(2 if feedforward else 0))

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, 3) -> (B, T, 2)."""
        values = self.enter(values)
        for depth, layer in enumerate(self.attention):
            values = values + layer(values)
            if self.feedforward:
                values = values + self.feedforward[depth](values)
        return self.leave(values)


def signs(company: str, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens (x1, x2, is it the mark) (B, T, 3), and whether x1 x2 > 0 (B, tokens asked)."""
    tokens = 8 if company == "others" else 1
    values = F.pad(2 * torch.rand(rows, tokens, 2) - 1, (0, 1))
    if company == "mark":
        values = torch.cat((values, torch.tensor([0.0, 0.0, 1.0]).expand(rows, 1, 3)), 1)
    return values, (values[:, :tokens, 0] * values[:, :tokens, 1] > 0).long()


def train(feedforward: bool, company: str, width: int, steps: int, seed: int) -> dict[str, Any]:
    """Share of right signs on new tokens, after training."""
    torch.manual_seed(seed)
    model = Signs(feedforward, width)
    rows = 64 if company == "others" else 256

    def loss(step: int) -> Tensor:
        values, right = signs(company, rows)
        return F.cross_entropy(model(values)[:, : right.shape[1]].flatten(0, 1), right.flatten())

    learn(model, loss, steps, 2e-3)
    with torch.no_grad():
        values, right = signs(company, 2048)
        guessed = model(values)[:, : right.shape[1]].argmax(-1)
    return {"right": (guessed == right).float().mean().item(), "parameters": parameters(model)}


def judge(left: dict[str, float], right: dict[str, dict[str, float]]) -> tuple[bool | None, str]:
    """Stack -> differences left; "with" or "without" -> company -> mean share right."""
    collapses = left["attention alone"] < ALIKE and left["whole block"] > APART
    needed = all(share < UNLEARNED for share in right["without"].values())
    able = all(share > LEARNED for share in right["with"].values())
    shares = ", ".join(f"{COMPANY[key]} {right['without'][key]:.0%}" for key in COMPANY)
    verdict = (
        f"of the tokens' differences "
        f"{left['attention alone']:.1e} is left by attention alone ({left['and feed-forward']:.1e} with feed-forward, "
        f"{left['and residual']:.2f} with residuals), {left['whole block']:.2f} by whole blocks; the sign "
        f"of x1 x2: with feed-forward at least {min(right['with'].values()):.1%} right, without: {shares}"
    )
    if not (collapses and able and needed) and any(share > LEARNED for share in right["without"].values()):
        verdict += " (the weights are not a linear function of the tokens, and act as a gate)"
    return grade(collapses and able and needed, collapses), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """The stack as one average, likeness over depth, and the task."""
    depth, width, tokens, seeds, steps, rows_drawn = settings.resolve(SIZES)
    seeds_used = range(settings.seed, settings.seed + seeds)
    error = max(compose(depth, width, tokens, seed)[1] for seed in seeds_used)
    if error >= EXACT:
        raise AssertionError(f"a stack differs from one average by {error:.1e}: the measurement is wrong")
    curves = {kind: [likeness(kind, depth, width, tokens, 16, seed) for seed in seeds_used] for kind in STACKS}
    by_depth = {kind: [mean(layer) for layer in zip(*by_seed, strict=True)] for kind, by_seed in curves.items()}
    runs = sweep(
        lambda company, feedforward, seed: train(feedforward, company, rows_drawn, steps, seed),
        product(("others", "mark", "alone"), (False, True)),
        settings,
        progress,
        seeds,
        lambda company, feedforward, seed: (
            f"{'with' if feedforward else 'without'} feed-forward, {COMPANY[company]}, seed {seed}"
        ),
    )
    every = {
        word: {company: [run["right"] for run in runs[company, feedforward]] for company in COMPANY}
        for word, feedforward in (("without", False), ("with", True))
    }
    right = {word: {company: mean(shares) for company, shares in by.items()} for word, by in every.items()}
    sizes = {feedforward: runs["alone", feedforward][0]["parameters"] for feedforward in (False, True)}
    holds, verdict = judge({kind: curve[-1] for kind, curve in by_depth.items()}, right)
    rows: list[list[Any]] = [["stack − one average (an identity)", f"{depth} layers, 1 head", error]]
    rows += [["tokens' differences left", f"{depth} layers, {kind}", by_depth[kind][-1]] for kind in STACKS]
    rows += [
        [f"sign of x1 x2, {COMPANY[key]}", f"{word} feed-forward", f"{right[word][key]:.1%}"]
        for key in COMPANY
        for word in right
    ]
    groups = [
        Group(
            f"{word} feed-forward",
            [right[word][key] for key in COMPANY],
            low=[min(every[word][key]) for key in COMPANY],
            high=[max(every[word][key]) for key in COMPANY],
        )
        for word in right
    ]
    panels: list[Panel] = [
        Lines(
            "At their start, tokens grow alike over depth",
            "layers",
            "differences between tokens, share left",
            [Series.of_runs(kind, range(depth + 1), curves[kind], mean, dashed="forward" in kind) for kind in STACKS],
            log_y=True,
            marks=[Mark(2.0**-52, "rounding of float64")],
        ),
        Bars(
            "Trained: the sign of x1 x2",
            "",
            "share of right signs",
            list(COMPANY.values()),
            groups,
            marks=[Mark(0.5, "guessing")],
            y_limits=(0.0, 1.1),
            form="{:.2f}",
        ),
    ]
    note = (
        f"Left: width {width}, {tokens} tokens. Right: 4 layers of attention ({sizes[False]:,} parameters), or 2 of "
        f"attention and feed-forward ({sizes[True]:,}); the mark is a token that is always the same. {seeds} seeds."
    )
    figure = Figure("Attention without a feed-forward layer", panels, note)
    measured = {"error": error, "left": by_depth, "right": every, "parameters": {str(k): v for k, v in sizes.items()}}
    return Findings(["measured", "of", "found"], rows, holds, verdict, figure, measured)


EXPERIMENT = Experiment(
    name="averaging",
    statement="Stacking attention without a feed-forward layer only re-averages values.",
    shows="what depth does to tokens without a feed-forward layer, and what cannot be learned without one",
    run=run,
    parts=(
        Part("theorem", "a stack of linear attention layers is one weighted average of the values"),
        Part("empirical", "tokens grow alike over depth, and residuals with feed-forward layers keep them apart"),
        Part("empirical", "a product of two tokens is learned with feed-forward layers and not without"),
    ),
    sizes=SIZES,
)
