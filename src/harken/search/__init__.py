"""Search: whole outputs from a model of the next token. All searches use one `step` interface (`contract.py`).

Names are imported on first use, so that reading a recipe's `[search]` section does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.search.beam import beam_search
    from harken.search.contract import State, StepModel
    from harken.search.greedy import greedy_search
    from harken.search.hypotheses import Hypothesis
    from harken.search.sampling import sample

__all__ = ["Hypothesis", "State", "StepModel", "beam_search", "greedy_search", "sample"]

_MODULES = {
    "Hypothesis": "harken.search.hypotheses",
    "State": "harken.search.contract",
    "StepModel": "harken.search.contract",
    "beam_search": "harken.search.beam",
    "greedy_search": "harken.search.greedy",
    "sample": "harken.search.sampling",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'harken.search' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
