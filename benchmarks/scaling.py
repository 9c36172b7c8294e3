"""Hours, memory and network traffic of Transformer base and big on WMT14, planned from a measured speed.

    python benchmarks/scaling.py --rate 1190000                # source and target tokens a second of the base model
    python benchmarks/scaling.py --rate 1190000 --batch 400000 # tokens of a batch in the place of the paper's 50,000

A step of n GPUs takes

    t = tokens / (n rate) + update + max(0, reduce - overlap * backward)

    update   weights, gradient, two moments and the average are read and written once, at the memory's bandwidth
    reduce   ring all-reduce of float32 gradients within a node, then of an eighth of them between nodes
    overlap  the share of the backward pass (two thirds of the compute) that hides communication; none where updates
             are captured, because the sums come after the graph

The speed of the big model is that of the base model at equal utilisation. Everything but `--rate` is an assumption that
can be changed on the command line.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

PER_NODE = 8


@dataclass(frozen=True)
class Model:
    """A Transformer of Vaswani et al. (2017) with one shared embedding."""

    name: str
    width: int
    inner: int
    updates: int
    bleu: float
    published_flops: float
    layers: int = 6
    vocabulary: int = 37_000

    @property
    def parameters(self) -> int:
        """Weights and biases, embeddings once."""
        attention = 4 * (self.width**2 + self.width)
        feedforward = 2 * self.width * self.inner + self.inner + self.width
        norms = 2 * self.width
        encoder = attention + feedforward + 2 * norms
        decoder = 2 * attention + feedforward + 3 * norms
        return self.layers * (encoder + decoder) + self.vocabulary * self.width + 4 * self.width

    def flops_per_pair_of_tokens(self, length: float = 28.0) -> float:
        """Forward and backward products for one source and one target token; attention at the mean length."""
        encoder = self.layers * (4 * self.width**2 + 2 * self.width * self.inner)
        decoder = self.layers * (8 * self.width**2 + 2 * self.width * self.inner) + self.width * self.vocabulary
        return 6 * (encoder + decoder) + self.layers * 3 * 2 * 2 * length * self.width * 3


BASE = Model("base", 512, 2048, 100_000, 27.3, 3.3e18)
BIG = Model("big", 1024, 4096, 300_000, 28.4, 2.3e19)


@dataclass(frozen=True)
class Machine:
    """What a step is made of beside compute."""

    memory_bandwidth: float = 3.5e12  # bytes a second, of 4.8e12 nominal
    node_bandwidth: float = 370e9  # bytes a second and GPU within a node
    network_bandwidth: float = 45e9  # bytes a second and GPU between nodes: 400 Gb/s
    overlap: float = 0.0

    def update(self, model: Model) -> float:
        """Seconds of the optimizer and the average."""
        return model.parameters * (5 * 4 + 4 * 4) / self.memory_bandwidth

    def reduce(self, model: Model, gpus: int) -> float:
        """Seconds of the all-reduce."""
        size, inside, nodes = 4 * model.parameters, min(gpus, PER_NODE), max(1, gpus // PER_NODE)
        within = 2 * (inside - 1) / inside * size / self.node_bandwidth
        return within + 2 * (nodes - 1) / nodes * size / inside / self.network_bandwidth

    def step(self, model: Model, gpus: int, tokens: int, rate: float) -> tuple[float, float]:
        """(seconds of a step, of which compute)."""
        compute = tokens / gpus / rate
        exposed = max(0.0, self.reduce(model, gpus) - self.overlap * compute * 2 / 3)
        return compute + self.update(model) + exposed, compute


def rate_of(model: Model, base_rate: float) -> float:
    """Tokens a second at the utilisation of the base model."""
    return base_rate * BASE.flops_per_pair_of_tokens() / model.flops_per_pair_of_tokens()


def table(base_rate: float, batch: int, machine: Machine) -> str:
    """The plan as Markdown."""
    head = "| Model | GPUs | Tokens a step and GPU | Step | Compute | All-reduce | Updates | Hours | Efficiency |"
    rows = [head, "| --- " * 9 + "|"]
    for model in (BASE, BIG):
        rate = rate_of(model, base_rate)
        tokens = 50_000 * model.updates
        updates = round(tokens / batch)
        alone = machine.step(model, 1, batch, rate)[0]
        for gpus in (1, 8, 64):
            seconds, compute = machine.step(model, gpus, batch, rate)
            cells = [
                model.name,
                str(gpus),
                f"{batch // gpus:,}",
                f"{1000 * seconds:.1f} ms",
                f"{compute / seconds:.0%}",
                f"{1000 * machine.reduce(model, gpus):.1f} ms" if gpus > 1 else "-",
                f"{updates:,}",
                f"{updates * seconds / 3600:.2f}",
                f"{alone / seconds / gpus:.0%}",
            ]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Print the plan."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rate", type=float, required=True, help="tokens a second of the base model on one GPU")
    options.add_argument("--batch", type=int, default=50_000, help="source and target tokens of a batch")
    options.add_argument("--node-bandwidth", type=float, default=Machine.node_bandwidth)
    options.add_argument("--network-bandwidth", type=float, default=Machine.network_bandwidth)
    options.add_argument("--overlap", type=float, default=Machine.overlap)
    chosen = options.parse_args()
    machine = Machine(
        node_bandwidth=chosen.node_bandwidth, network_bandwidth=chosen.network_bandwidth, overlap=chosen.overlap
    )
    for model in (BASE, BIG):
        needed = model.flops_per_pair_of_tokens() * 25_000 * model.updates
        print(
            f"{model.name}: {model.parameters / 1e6:.1f} M parameters, {rate_of(model, chosen.rate):,.0f} tokens/s, "
            f"{needed:.2g} FLOPs in products (published {model.published_flops:.2g}), gradient "
            f"{4 * model.parameters / 1e6:,.0f} MB, weights, gradient, moments and average "
            f"{20 * model.parameters / 1e9:.1f} GB"
        )
    print(table(chosen.rate, chosen.batch, machine))


if __name__ == "__main__":
    main()
