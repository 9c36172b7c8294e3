"""Inspection: what a model attends to, what its gates do and how far its gradients reach, on screen and on paper."""

from harken.inspection.attention import AttentionMaps, LayerAttention, attention_maps
from harken.inspection.flow import GradientFlow, LayerFlow, gradient_flow
from harken.inspection.flow_picture import FlowPicture
from harken.inspection.gate_picture import GatePicture
from harken.inspection.gates import GateTrace, LayerGates, gates
from harken.inspection.grid import AttentionGrid
from harken.inspection.picture import Picture
from harken.inspection.summary import summarise
from harken.inspection.tables import AlignmentMap, ConfusionMatrix, HeatMaps, HopMap, ShadeTable, WordWeights

__all__ = [
    "AlignmentMap",
    "AttentionGrid",
    "AttentionMaps",
    "ConfusionMatrix",
    "FlowPicture",
    "GatePicture",
    "GateTrace",
    "GradientFlow",
    "HeatMaps",
    "HopMap",
    "LayerAttention",
    "LayerFlow",
    "LayerGates",
    "Picture",
    "ShadeTable",
    "WordWeights",
    "attention_maps",
    "gates",
    "gradient_flow",
    "summarise",
]
