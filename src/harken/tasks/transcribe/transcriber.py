"""A trained transcriber: the model folder as an object.

model = harken.load("runs/digits")
found = model.transcribe("number.wav", beam=8)
found.text, found.symbols[0].start, found.confidence
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch

from harken.data.audio.filterbank import frames_of, log_mels, pad_rows, postprocess
from harken.data.audio.recordings import one_channel, read_audio, resample
from harken.data.tokenizers.symbols import Symbols
from harken.errors import UserError
from harken.models.heads.transcriber import TranscriberNetwork
from harken.models.language.ngram import NGram
from harken.nn.ctc import frames_needed
from harken.search.ctc import align_ctc, greedy_ctc, prefix_search
from harken.tasks.transcribe.frames import HeardBatch, steps_of
from harken.tasks.transcribe.network import build_network
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.transcription import Posteriors, SpokenSymbol, Transcription
from harken.training.checkpoints import MODEL, load_weights
from harken.training.machine import choose_device

LANGUAGE = "language.json"  # the n-gram of the training texts
BLANK_NAME = "–"
Sound = str | Path | np.ndarray


class Transcriber:
    """Model, symbols, n-gram and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: TranscribeRecipe,
        model: TranscriberNetwork,
        symbols: Symbols,
        language: NGram,
        folder: Path | None = None,
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.model = model.eval()
        self.symbols, self.language = symbols, language

    @classmethod
    def load(cls, folder: Path, recipe: TranscribeRecipe, device: str = "auto") -> Transcriber:
        """The model of a folder whose recipe was read.

        Raises:
            UserError: the folder does not hold together.
        """
        symbols = Symbols.load(folder)
        try:
            language = NGram.from_json((folder / LANGUAGE).read_text(encoding="utf-8"))
            if language.size != len(symbols) + 1:  # one is the end of a text
                raise ValueError(f"it has {language.size - 1} symbols, not {len(symbols)}")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{folder / LANGUAGE} cannot be read ({problem}); copy the model folder anew") from None
        model = build_network(recipe, len(symbols))
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), symbols, language, folder)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def hear(self, sound: Sound, rate: int | None = None) -> tuple[str, np.ndarray]:
        """(name, samples (n,) at the model's rate) of a file, or of samples (n,) or (n, channels).

        Args:
            rate: of samples that are given; the model's own where it is not said.

        Raises:
            UserError: not to be read, no numbers, or too short.
        """
        wanted = self.recipe.features.rate
        if isinstance(sound, np.ndarray):
            name, samples, found = (
                "the recording",
                one_channel(sound, "the recording"),
                wanted if rate is None else rate,
            )
            if found < 1:
                raise UserError(f"the rate of the recording is {found}; give samples a second, such as 16000")
        else:
            if rate is not None:
                raise UserError(f"{sound} says its own rate; give rate= with samples alone")
            name = str(sound)
            samples, found = read_audio(sound)
        samples = resample(samples, found, wanted)
        if len(samples) < self.recipe.features.window_samples:
            raise UserError(
                f"{name} is too short: it has {1000 * len(samples) / wanted:.0f} ms, and a frame alone needs "
                f"{self.recipe.features.window:g} ms; give a longer recording"
            )
        longest, steps = self.recipe.model.longest, steps_of(len(samples), self.recipe)
        if longest is not None and steps > longest:
            raise UserError(
                f"{name} is too long: it has {steps} steps, and positions were learned for {longest}; cut it up"
            )
        return name, samples

    def posteriors(self, sound: Sound, rate: int | None = None) -> Posteriors:
        """The chances of every symbol at every step of a recording."""
        _, samples = self.hear(sound, rate)
        return self._posteriors(self.log_probs(frames_of([samples], self.recipe.features))[0])

    def _posteriors(self, log_probs: np.ndarray) -> Posteriors:
        return Posteriors(np.exp(log_probs), [BLANK_NAME, *self.symbols.names], self.recipe.step_seconds)

    @overload
    def transcribe(
        self, sound: Sound, rate: int | None = None, *, beam: int | None = None, lm_weight: float | None = None
    ) -> Transcription: ...
    @overload
    def transcribe(
        self,
        sound: list[Sound] | tuple[Sound, ...],
        rate: int | None = None,
        *,
        beam: int | None = None,
        lm_weight: float | None = None,
    ) -> list[Transcription]: ...

    def transcribe(
        self,
        sound: Sound | list[Sound] | tuple[Sound, ...],
        rate: int | None = None,
        *,
        beam: int | None = None,
        lm_weight: float | None = None,
    ) -> Transcription | list[Transcription]:
        """What is said in a recording, or in each of several.

        Args:
            sound: a file, or samples as an array from -1 to 1 (or of integers).
            rate: of samples that are given; the model's own where it is not said.
            beam: prefixes kept; 1 is the best path. Default: what the recipe says.
            lm_weight: how much a beam heeds the n-gram of the training texts. Default: what the recipe says.

        Raises:
            UserError: a recording that cannot be read, is too short, or holds what is no number.
        """
        if isinstance(sound, list | tuple):
            heard = [self.hear(one, rate) for one in sound]
            return self._transcribe(heard, beam, lm_weight)
        return self._transcribe([self.hear(sound, rate)], beam, lm_weight)[0]

    def _transcribe(
        self, heard: Sequence[tuple[str, np.ndarray]], beam: int | None, lm_weight: float | None
    ) -> list[Transcription]:
        features = self.recipe.features
        energies = log_mels([samples for _, samples in heard], features)
        frames, lengths = postprocess(*pad_rows(energies), features)
        log_probs = self.log_probs([row[:length] for row, length in zip(frames, lengths.tolist(), strict=True)])
        found = []
        for (name, samples), values, chances in zip(heard, energies, log_probs, strict=True):
            numbers, score = self.search(chances, beam, lm_weight)
            step = self.recipe.step_seconds
            spoken = [
                SpokenSymbol(self.symbols.names[number - 1], span.start * step, span.end * step, span.confidence)
                for number, span in zip(numbers, align_ctc(chances, numbers), strict=True)
            ]
            found.append(
                Transcription(
                    name,
                    self.symbols.decode(numbers),
                    score,
                    len(samples) / features.rate,
                    spoken,
                    self._posteriors(chances),
                    values.numpy(),
                    features.hop_samples / features.rate,
                )
            )
        return found

    def batch(self, sounds: Sequence[Sound | tuple[np.ndarray, str]]) -> HeardBatch:
        """Recordings as the network hears them, for `harken.inspection`: alone, or samples with their text.

        Without a text, and where it does not fit, what the network itself hears is taken for it.

        Raises:
            UserError: as `transcribe`; or there is none.
        """
        if not sounds:
            raise UserError("there is no recording to hear; give at least one")
        heard = [self.hear(one[0] if isinstance(one, tuple) else one)[1] for one in sounds]
        frames = frames_of(heard, self.recipe.features)
        paths = []
        for one, chances in zip(sounds, self.log_probs(frames), strict=True):
            numbers = self.symbols.encode(one[1]) if isinstance(one, tuple) else greedy_ctc(chances)
            numbers = numbers if frames_needed(numbers) <= len(chances) else greedy_ctc(chances)
            path = np.zeros(len(chances), dtype=np.int64)  # blank
            for number, span in zip(numbers, align_ctc(chances, numbers), strict=True):
                path[span.start : span.end] = number
            paths.append(path)
        said = torch.zeros(len(paths), max(len(path) for path in paths), dtype=torch.long)
        for row, path in enumerate(paths):
            said[row, : len(path)] = torch.from_numpy(path)
        last = torch.tensor([int(np.flatnonzero(path).max(initial=0)) or len(path) - 1 for path in paths])
        padded, lengths = pad_rows(frames)
        return HeardBatch(*(tensor.to(self.device) for tensor in (padded, lengths, said, last)))

    def reading(self, sound: str) -> tuple[HeardBatch, dict[str, list[str]], str]:
        """For `harken inspect --gates`: a file as a batch, the seconds of its steps, and a title."""
        batch = self.batch([sound])
        steps = [f"{number * self.recipe.step_seconds:.2f}" for number in range(batch.said.shape[1])]
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

    @torch.no_grad()
    def log_probs(
        self, frames: Sequence[torch.Tensor], progress: Callable[[int], None] | None = None
    ) -> list[np.ndarray]:
        """(T, V + 1) of each, in batches of about equal length."""
        found: list[np.ndarray] = [np.zeros((0, 0))] * len(frames)
        order = sorted(range(len(frames)), key=lambda number: len(frames[number]))
        for start in range(0, len(order), self.recipe.search.batch):
            chosen = order[start : start + self.recipe.search.batch]
            padded, lengths = pad_rows([frames[number] for number in chosen])
            values, steps = self.model(padded.to(self.device), lengths.to(self.device))
            for number, row, count in zip(chosen, values.float().cpu().numpy(), steps.tolist(), strict=True):
                found[number] = row[:count]
            if progress:
                progress(len(chosen))
        return found
