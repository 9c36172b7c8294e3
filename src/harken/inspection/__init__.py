"""Inspection: what a model attends to, what its gates do and how far its gradients reach, on screen and on paper."""

from harken.inspection.alignment import AlignmentMap
from harken.inspection.flow import GradientFlow, LayerFlow, gradient_flow
from harken.inspection.gates import GateTrace, LayerGates, gates
from harken.inspection.grid import AttentionGrid

__all__ = [
    "AlignmentMap",
    "AttentionGrid",
    "GateTrace",
    "GradientFlow",
    "LayerFlow",
    "LayerGates",
    "gates",
    "gradient_flow",
]
