"""A trained transcriber: the model folder as an object.

model = harken.load("runs/digits")
found = model.transcribe("number.wav", beam=8)
found.text, found.symbols[0].start, found.confidence
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self, TypedDict, Unpack, overload

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from harken.data.audio.filterbank import frames_of, log_mels, pad_rows, postprocess
from harken.data.audio.recordings import one_channel, read_audio, resample
from harken.data.tokenizers.symbols import FILE, Symbols
from harken.errors import UserError
from harken.files import atomic_write
from harken.models.build import build_encoder
from harken.models.convolutional.encoder import ConvolutionFront
from harken.models.heads.transcriber import TranscriberNetwork
from harken.models.language.ngram import NGram
from harken.nn.ctc import frames_needed
from harken.search.ctc import align_ctc, greedy_ctc, prefix_search
from harken.tasks.artifacts import Artifact, ObjectArtifact, damaged
from harken.tasks.inspected import InspectedBatch
from harken.tasks.keywords import show_keywords
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.task import steps_of
from harken.tasks.transcribe.transcription import Posteriors, SpokenSymbol, Transcription

BLANK_NAME = "–"
Sound = str | Path | np.ndarray
Sounds = list[Sound] | tuple[Sound, ...]


class Options(TypedDict, total=False):
    """Options of a search; None: the value of the recipe."""

    beam: Annotated[int | None, "prefixes kept; 1 is the best path"]
    lm_weight: Annotated[float | None, "weight of the n-gram of the training texts in beam search"]


class LanguageArtifact(Artifact[NGram]):
    """The n-gram of the training texts."""

    file = "language.json"
    names = frozenset((file,))

    def save(self, value: NGram, folder: Path) -> None:
        atomic_write(folder / self.file, value.to_json())

    def load(self, folder: Path) -> NGram:
        try:
            return NGram.from_json((folder / self.file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise damaged(folder / self.file) from None


SYMBOLS, LANGUAGE = ObjectArtifact(Symbols, FILE), LanguageArtifact()


def build_network(recipe: TranscribeRecipe, symbols: int) -> TranscriberNetwork:
    """A new network for so many symbols, with weights drawn from torch's current random state."""
    encoder, front = build_encoder(recipe.model), recipe.front
    convolutions = None
    if front.layers:
        convolutions = ConvolutionFront(encoder.embedding, front.layers, front.kernel, front.stride)
    return TranscriberNetwork(recipe.features.channels, symbols, encoder, convolutions)


class Transcriber(Predictor[TranscribeRecipe, TranscriberNetwork]):
    """Model, symbols, n-gram and recipe of one folder; load it with `harken.load`."""

    symbols: Symbols
    language: NGram
    parts = (("symbols", SYMBOLS), ("language", LANGUAGE))

    @staticmethod
    def build(recipe: TranscribeRecipe, symbols: Symbols, language: NGram) -> TranscriberNetwork:
        """A network with new weights."""
        return build_network(recipe, len(symbols))

    @classmethod
    def open(cls, folder: Path, recipe: TranscribeRecipe, device: str) -> Self:
        predictor = super().open(folder, recipe, device)
        if predictor.language.size != len(predictor.symbols) + 1:
            raise UserError(f"{folder / LANGUAGE.file} does not fit {FILE} beside it; copy the folder again")
        return predictor

    def hear(self, sound: Sound, rate: int | None = None) -> tuple[str, np.ndarray]:
        """(name, samples (n,) at the model's rate) of a file, or of samples (n,) or (n, channels).

        Args:
            rate: of samples that are given; the model's own where it is not said.

        Raises:
            UserError: not to be read, no numbers, or too short.
        """
        model_rate = self.recipe.features.rate
        if isinstance(sound, np.ndarray):
            name, own_rate = "the recording", model_rate if rate is None else rate
            samples = one_channel(sound, name)
            if own_rate < 1:
                raise UserError(f"the rate of the recording is {own_rate}; give samples a second, such as 16000")
        else:
            if rate is not None:
                raise UserError(f"{sound} says its own rate; give rate= with samples alone")
            name = str(sound)
            samples, own_rate = read_audio(sound)
        samples = resample(samples, own_rate, model_rate)
        if len(samples) < self.recipe.features.window_samples:
            raise UserError(
                f"{name} is too short: it has {1000 * len(samples) / model_rate:.0f} ms, and a frame alone needs "
                f"{self.recipe.features.window:g} ms; give a longer recording"
            )
        longest, steps = self.recipe.model.longest, steps_of(len(samples), self.recipe)
        if longest is not None and steps > longest:
            raise UserError(
                f"{name} is too long: it has {steps} steps, and positions were learned for {longest}; cut it up"
            )
        return name, samples

    def posteriors(self, sound: Sound, rate: int | None = None) -> Posteriors:
        """The probabilities of every symbol at every step of a recording."""
        _, samples = self.hear(sound, rate)
        return self._posteriors(self.log_probs(frames_of([samples], self.recipe.features))[0])

    def _posteriors(self, log_probs: np.ndarray) -> Posteriors:
        return Posteriors(np.exp(log_probs), [BLANK_NAME, *self.symbols.names], self.recipe.step_seconds)

    @overload
    def transcribe(self, sound: Sound, rate: int | None = None, **options: Unpack[Options]) -> Transcription: ...
    @overload
    def transcribe(self, sound: Sounds, rate: int | None = None, **options: Unpack[Options]) -> list[Transcription]: ...

    @show_keywords(Options)
    def transcribe(
        self, sound: Sound | Sounds, rate: int | None = None, **options: Unpack[Options]
    ) -> Transcription | list[Transcription]:
        """Transcribe a recording, or each of several.

        Args:
            sound: a file, or samples as an array from -1 to 1 (or of integers).
            rate: of samples that are given; the model's own where it is not said.
            options: by default what the recipe says.

        Raises:
            UserError: a recording that cannot be read, is too short, or holds what is no number.
        """
        several = isinstance(sound, list | tuple)
        heard = [self.hear(recording, rate) for recording in (sound if isinstance(sound, list | tuple) else [sound])]
        features, step = self.recipe.features, self.recipe.step_seconds
        energies = log_mels([samples for _, samples in heard], features)
        frames, lengths = postprocess(*pad_rows(energies), features)
        log_probs = self.log_probs([row[:length] for row, length in zip(frames, lengths.tolist(), strict=True)])
        transcriptions = []
        for (name, samples), energy, values in zip(heard, energies, log_probs, strict=True):
            numbers, score = self.search(values, **options)
            spoken = [
                SpokenSymbol(self.symbols.names[number - 1], span.start * step, span.end * step, span.confidence)
                for number, span in zip(numbers, align_ctc(values, numbers), strict=True)
            ]
            text, seconds, frame = self.symbols.decode(numbers), len(samples) / features.rate, features.hop_samples
            posteriors = self._posteriors(values)
            transcriptions.append(
                Transcription(name, text, score, seconds, spoken, posteriors, energy.numpy(), frame / features.rate)
            )
        return transcriptions if several else transcriptions[0]

    def batch(self, sounds: Sequence[Sound | tuple[np.ndarray, str]]) -> InspectedBatch:
        """Recordings as the network hears them, for `harken.inspection`: alone, or samples with their text.

        Without a text, and where it does not fit, what the network itself hears is taken for it.

        Raises:
            UserError: as `transcribe`; or there is none.
        """
        if not sounds:
            raise UserError("there is no recording to hear; give at least one")
        heard = [self.hear(sound[0] if isinstance(sound, tuple) else sound)[1] for sound in sounds]
        frames = frames_of(heard, self.recipe.features)
        paths = []
        for sound, values in zip(sounds, self.log_probs(frames), strict=True):
            numbers = self.symbols.encode(sound[1]) if isinstance(sound, tuple) else greedy_ctc(values)
            numbers = numbers if frames_needed(numbers) <= len(values) else greedy_ctc(values)
            path = np.zeros(len(values), dtype=np.int64)  # blank
            for number, span in zip(numbers, align_ctc(values, numbers), strict=True):
                path[span.start : span.end] = number
            paths.append(path)
        symbols = pad_sequence([torch.from_numpy(path) for path in paths], batch_first=True)
        last = torch.tensor([int(np.flatnonzero(path).max(initial=0)) or len(path) - 1 for path in paths])
        *inputs, symbols, last = (tensor.to(self.device) for tensor in (*pad_rows(frames), symbols, last))
        return InspectedBatch(inputs, symbols, last, lambda network, *values: network(*values)[0])

    def reading(self, sound: str) -> tuple[InspectedBatch, dict[str, list[str]], str]:
        """Read a file for `harken inspect --gates`: a batch, the seconds of its steps, and a title."""
        batch = self.batch([sound])
        steps = [f"{number * self.recipe.step_seconds:.2f}" for number in range(batch.labels.shape[1])]
        return batch, {"encoder": steps}, f"{sound} → {self.transcribe(sound).text} (seconds)"

    def search(
        self, log_probs: np.ndarray, beam: int | None = None, lm_weight: float | None = None
    ) -> tuple[list[int], float]:
        """The symbols of (T, V + 1), and their score."""
        settings = self.recipe.search
        width = beam or settings.beam
        if width == 1:
            return greedy_ctc(log_probs), float(log_probs.max(1).sum())
        best = prefix_search(
            log_probs,
            width,
            language=self.language,
            weight=settings.lm_weight if lm_weight is None else lm_weight,
            bonus=settings.bonus,
            prune=settings.prune,
        )[0]
        return list(best.symbols), best.score

    def log_probs(self, frames: Sequence[torch.Tensor], progress: Progress | None = None) -> list[np.ndarray]:
        """Log-probabilities (T', V + 1) of each, read in batches of like length."""
        size, order = self.recipe.search.batch, np.argsort([len(row) for row in frames], kind="stable")

        def run(indices: np.ndarray) -> list[np.ndarray]:
            padded, lengths = pad_rows([frames[index] for index in indices])
            values, steps = self.model(padded.to(self.device), lengths.to(self.device))
            return [row[:count] for row, count in zip(values.float().cpu().numpy(), steps.tolist(), strict=True)]

        return self.map([order[start : start + size] for start in range(0, len(order), size)], run, progress)
