"""Checkpoints and model files: safetensors and JSON, no pickle; written atomically, validated before use.

tensors.py      safetensors files with a digest
weights.py      the weights of a model: names, loading, building a model for them
progress.py     the state of a run between two updates
checkpoint.py   checkpoints in one file, and finding the newest intact one
shards.py       checkpoints of FSDP: one file a rank
"""

from harken.training.checkpoints.checkpoint import CheckpointWriter, has_checkpoint, load_checkpoint, save_checkpoint
from harken.training.checkpoints.progress import CHECKPOINT, PREVIOUS, Checkpoint, Progress
from harken.training.checkpoints.shards import remove_shards, save_shard, shard_of
from harken.training.checkpoints.tensors import DIGEST, load_tensors, save_tensors
from harken.training.checkpoints.weights import (
    MODEL,
    fitting_weights,
    load_weights,
    state_of,
    with_current_names,
    without_initialization,
)

__all__ = [
    "CHECKPOINT",
    "DIGEST",
    "MODEL",
    "PREVIOUS",
    "Checkpoint",
    "CheckpointWriter",
    "Progress",
    "fitting_weights",
    "has_checkpoint",
    "load_checkpoint",
    "load_tensors",
    "load_weights",
    "remove_shards",
    "save_checkpoint",
    "save_shard",
    "save_tensors",
    "shard_of",
    "state_of",
    "with_current_names",
    "without_initialization",
]
