"""`harken check` of a transcription recipe."""

from __future__ import annotations

from pathlib import Path

from harken.data.io.files import require_file
from harken.data.io.table import read_table
from harken.data.tokenizers.symbols import Symbols
from harken.models.heads.transcriber import TranscriberNetwork
from harken.models.sizing import LENGTHS, Size, measure, uninitialised
from harken.tasks.registry import Estimate
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.transcriber import build_network

STEPS = 24  # of an example whose cost is measured
SECONDS = {"character": 0.07, "word": 0.4, "digit": 0.7, "letter": 0.1}  # of speech per symbol
DIGITS, DIGIT_LETTERS, LETTERS_OF_A_DIGIT = 10, 16, 5.0  # with the space between words
TONE_LETTERS, LETTERS_OF_A_TONE_TEXT = 12, 12.0


def estimate(recipe: TranscribeRecipe) -> Estimate:
    """Check the files, and measure the network; a term of the loss is a symbol.

    Raises:
        UserError: the error that training would raise.
    """
    corpus, symbols, terms, seconds = describe(recipe)
    model = uninitialised(lambda: build_network(recipe, symbols))
    return Estimate(corpus, terms, size_of(model, recipe, seconds / recipe.step_seconds))


def size_of(model: TranscriberNetwork, recipe: TranscribeRecipe, steps_per_symbol: float) -> Size:
    """The size of a network whose encoder reads so many steps for each symbol."""
    frames = recipe.front.stride**recipe.front.layers  # of a step of the encoder
    lengths = tuple(steps * frames for steps in LENGTHS)
    return measure(model, STEPS * frames, terms=STEPS / steps_per_symbol, lengths=lengths)


def describe(recipe: TranscribeRecipe) -> tuple[str, int, int, float]:
    """A description of the training set, the number of symbols, those of an epoch, and the seconds of one."""
    data = recipe.data
    if data.corpus:
        return f"made speech, {data.size:,} utterances an epoch", *_tones(recipe)
    if data.dir:
        from harken.data.audio.spoken_digits import ARCHIVE

        require_file(Path(data.dir) / ARCHIVE)
        count = round(data.size * (data.shortest + data.longest) / 2)
        name = f"spoken digits from {data.dir}, {data.size:,} strings an epoch"
        if data.digits == "words" and data.symbols == "character":
            letters = round(count * LETTERS_OF_A_DIGIT)
            return name, DIGIT_LETTERS, letters, SECONDS["digit"] / LETTERS_OF_A_DIGIT
        return name, DIGITS, count, SECONDS["digit"]
    texts = [str(text) for text in read_table(str(data.train), [data.audio_column, data.text_column])[data.text_column]]
    symbols = Symbols.learn((text.lower() if data.lowercase else text for text in texts), data.symbols)
    terms = sum(max(1, len(symbols.split(text))) for text in texts)
    return f"{data.train}, {len(texts):,} recordings", len(symbols), terms, SECONDS[data.symbols]


def _tones(recipe: TranscribeRecipe) -> tuple[int, int, float]:
    if recipe.data.symbols == "word":
        from harken.data.synthetic.tone_speech import DICTIONARY

        return len(DICTIONARY), round(recipe.data.size * 2.5), SECONDS["letter"] * 4
    return TONE_LETTERS, round(recipe.data.size * LETTERS_OF_A_TONE_TEXT), SECONDS["letter"]
