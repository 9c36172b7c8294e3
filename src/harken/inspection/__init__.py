"""Inspection: what a model attends to, what its gates do and how far its gradients reach, on screen and on paper."""

from harken.inspection.measures.attention import AttentionMaps, LayerAttention, attention_maps
from harken.inspection.measures.flow import GradientFlow, LayerFlow, gradient_flow
from harken.inspection.measures.gates import GateTrace, LayerGates, gates
from harken.inspection.measures.summary import summarise
from harken.inspection.pictures.flow import FlowPicture
from harken.inspection.pictures.gates import GatePicture
from harken.inspection.pictures.grid import AttentionGrid
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.tables import AlignmentMap, ConfusionMatrix, HeatMaps, HopMap, ShadeTable, WordWeights

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
