"""`[model]` of question answering over facts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class AnswererConfig(BaseModel):
    """Question answering by several hops of attention over facts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attention: Literal["softmax", "newest"] = Field(
        "newest",
        description="softmax: a memory network, each hop attends to all facts (Sukhbaatar et al., 2015); newest: query "
        "reduction, newer facts hide older ones (Seo et al., 2017)",
    )
    reader: Literal["positions", "bag", "gru", "lstm"] = Field(
        "positions",
        description="a sentence as one vector: words weighted by position, plain words, or the last states of a layer",
    )
    hops: int = Field(2, ge=1, description="passes of attention over the facts")
    width: int = Field(50, ge=1, description="width of the vectors of words, facts and queries")
    score: Literal["dot", "scaled", "multiplicative", "additive", "cosine"] = Field(
        "dot", description="score of a query and a fact; the query is weighted entry by entry first"
    )
    tied: Literal["adjacent", "layerwise"] = Field(
        "adjacent",
        description=(
            "softmax: tie the output embedding of a hop to the input embedding of the next (adjacent), or"
            " all hops (layerwise)"
        ),
    )
    gate: bool = Field(
        True, description="a gate on the update of a hop: of the query (softmax), or of each fact (newest)"
    )
    max_facts: int = Field(80, ge=1, description="read at most this many facts, the newest")
    noise: float = Field(
        0.1, ge=0, lt=1, description="softmax: in training, the probability of a gap in time after each fact"
    )
    output: Literal["classes", "set", "pointer"] = Field(
        "classes",
        description=(
            "classes: one of the training answers; set: several of them, as in apple,football; pointer: a"
            " word of the facts"
        ),
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the vectors of facts and question")

    @property
    def title(self) -> str:
        """For reports."""
        kind = "memory network" if self.attention == "softmax" else "query reduction"
        return f"{kind}, {self.hops} hop{'s' * (self.hops != 1)}"
