"""From a recipe to a transcriber's network."""

from __future__ import annotations

import torch

from harken.data.audio.filterbank import frames_of
from harken.data.audio.utterances import Utterances
from harken.models.build import build_encoder
from harken.models.convolutional.encoder import ConvolutionFront
from harken.models.heads.transcriber import TranscriberNetwork
from harken.tasks.transcribe.recipe import TranscribeRecipe

TO_FIT = 500  # recordings that mean and deviation of the training set are taken from


def build_network(recipe: TranscribeRecipe, symbols: int) -> TranscriberNetwork:
    """A new network for so many symbols, with weights drawn from torch's current random state."""
    encoder, front = build_encoder(recipe.model), recipe.front
    made = ConvolutionFront(encoder.embedding, front.layers, front.kernel, front.stride) if front.layers else None
    return TranscriberNetwork(recipe.features.channels, symbols, encoder, made)


def fit_normalisation(network: TranscriberNetwork, recipe: TranscribeRecipe, train: Utterances) -> None:
    """Where the training set is to give mean and deviation, take them from its first recordings."""
    if recipe.features.normalise == "training":
        count = min(len(train), TO_FIT)
        frames = frames_of([train.samples(0, index) for index in range(count)], recipe.features)
        network.inputs.fit(torch.cat(frames))
