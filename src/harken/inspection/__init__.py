"""Inspection: what a model attends to, what its gates do and how far its gradients reach, on screen and on paper."""

from harken.inspection.alignment import AlignmentMap
from harken.inspection.flow import GradientFlow, LayerFlow, gradient_flow
from harken.inspection.flow_picture import FlowPicture
from harken.inspection.gate_picture import GatePicture
from harken.inspection.gates import GateTrace, LayerGates, gates
from harken.inspection.grid import AttentionGrid
from harken.inspection.hop_map import HopMap
from harken.inspection.summary import summarise

__all__ = [
    "AlignmentMap",
    "AttentionGrid",
    "FlowPicture",
    "GatePicture",
    "GateTrace",
    "GradientFlow",
    "HopMap",
    "LayerFlow",
    "LayerGates",
    "gates",
    "gradient_flow",
    "summarise",
]
