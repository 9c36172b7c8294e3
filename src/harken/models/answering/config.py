"""What `[model]` may say where questions are answered from facts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class AnswererConfig(BaseModel):
    """Question answering by several hops of attention over facts."""

    model_config = ConfigDict(extra="forbid")

    attention: Literal["softmax", "newest"] = Field(
        "newest",
        description=(
            "softmax: memory network, each hop is a softmax over the facts (Sukhbaatar et al., 2015); "
            "newest: query reduction, each fact has a gate and newer facts override older ones (Seo et "
            "al., 2017)"
        ),
    )
    reader: Literal["positions", "bag", "gru", "lstm"] = Field(
        "positions",
        description="sentence encoder: position encoding, sum of word embeddings, or a recurrent layer",
    )
    hops: int = Field(2, ge=1, description="number of attention hops")
    width: int = Field(50, ge=1, description="width of the embeddings of words, facts and queries")
    score: Literal["dot", "scaled", "multiplicative", "additive", "cosine"] = Field(
        "dot", description="attention score between a query, weighted elementwise, and a fact"
    )
    tied: Literal["adjacent", "layerwise"] = Field(
        "adjacent",
        description=(
            "softmax: tie the output embedding of a hop to the input embedding of the next (adjacent), or"
            " all hops (layerwise)"
        ),
    )
    gate: bool = Field(True, description="gate on the result of a hop: per query (softmax) or per fact (newest)")
    max_facts: int = Field(80, ge=1, description="read at most this many facts, the newest")
    noise: float = Field(0.1, ge=0, lt=1, description="softmax: probability of a time gap after each fact in training")
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
