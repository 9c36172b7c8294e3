"""Search: from a model that gives the next token to whole outputs. One search over one `step` contract.

Names are imported when first used, so that reading a recipe's `[search]` section does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.search.beam import beam_search
    from harken.search.contract import State, StepModel
    from harken.search.greedy import greedy_search
    from harken.search.hypothesis import Hypothesis
    from harken.search.sampling import sample

__all__ = ["Hypothesis", "State", "StepModel", "beam_search", "greedy_search", "sample"]

_HOME = {
    "Hypothesis": "harken.search.hypothesis",
    "State": "harken.search.contract",
    "StepModel": "harken.search.contract",
    "beam_search": "harken.search.beam",
    "greedy_search": "harken.search.greedy",
    "sample": "harken.search.sampling",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harken.search' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
