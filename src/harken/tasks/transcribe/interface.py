"""The interface of transcribers: `harken transcribe`, `POST /v1/transcribe`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harken.tasks.interface import MAX_SERVED_BEAM, Argument, Files, Interface, Option, Options

RECORDINGS = Argument(
    "files",
    list[Path],
    "Recordings (WAV; FLAC, OGG ... with soundfile), or - for a list on stdin.",
    is_required=True,
)


@dataclass(frozen=True)
class TranscribeOptions(Options):
    """Options of `harken transcribe`."""

    beam: Annotated[
        int | None,
        Option("live hypotheses; 1 is greedy search; default: the recipe's", ge=1, le=1000, served_le=MAX_SERVED_BEAM),
    ] = None
    lm_weight: Annotated[
        float | None, Option("how much a beam heeds the n-gram of the training texts", ge=0, le=1000)
    ] = None
    posteriors: Annotated[bool, Option("also spectrogram and probabilities of symbols over time", in_command=False)] = (
        False
    )


INTERFACE = Interface(
    verb="transcribe",
    help="Write down what is said in recordings: one line out for every file.",
    input=Files(RECORDINGS, example="recording.wav", endings=(".wav", ".flac", ".ogg", ".mp3"), noun="recording"),
    options=TranscribeOptions,
    examples=(
        "harken transcribe runs/digits number.wav",
        "ls *.wav | harken transcribe runs/digits - --beam 8 --json",
    ),
    usage="harken transcribe {} recording.wav",
    unit="recordings",
    batch=1,
)
