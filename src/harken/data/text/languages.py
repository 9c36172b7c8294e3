"""Language codes, their names, and the language of texts.

A script of one language decides; for other scripts py3langid does (naive Bayes over byte n-grams, 147 languages),
where it is installed.

>>> canonical("EN-gb"), canonical("iw"), language_name("fr"), language_name("xx")
('en', 'he', 'French', 'xx')
>>> detect(["黒い猫が眠る", "猫は本を読む"]), detect(["แมวดำ"]), detect(["12 + 3"])
('ja', 'th', None)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from harken.data.text.locations import BILINGUAL
from harken.data.text.scripts import script_of

NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "km": "Khmer", "ko": "Korean", "la": "Latin", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian",
    "ms": "Malay", "my": "Burmese", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
OLD = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "jp": "ja", "cn": "zh"}  # older or wrong codes still in use
BY_SCRIPT = {
    "Japanese": "ja", "Kana": "ja", "Han": "zh", "Hangul": "ko", "Thai": "th", "Lao": "lo", "Khmer": "km",
    "Myanmar": "my", "Tibetan": "bo", "Hebrew": "he", "Greek": "el", "Armenian": "hy", "Georgian": "ka",
    "Tamil": "ta", "Telugu": "te", "Kannada": "kn", "Malayalam": "ml", "Sinhala": "si", "Gujarati": "gu",
    "Gurmukhi": "pa", "Ethiopic": "am",
}  # fmt: skip
NO_LANGUAGE = {"zxx", "und"}  # what py3langid calls codes and numbers
SHORTEST = 20  # characters from which a language can be told from others of its script
TEXTS, VOTES = 400, 20  # texts that are looked at, evenly spaced, and the parts of them that vote


def canonical(code: str) -> str:
    """A code in lower case, without region or script."""
    short = code.strip().lower().replace("_", "-").split("-")[0]
    return OLD.get(short, short)


def languages_of(data: Any) -> tuple[str | None, str | None]:
    """The codes of source and target that the table [data] of a recipe names."""
    named = data.pair or (data.direction if data.corpus in BILINGUAL else None)
    sides = named.split("-") if named and named.count("-") == 1 else (None, None)
    source, target = (data.source_language or sides[0], data.target_language or sides[1])
    return source and canonical(source), target and canonical(target)


def language_name(code: str) -> str:
    """The English name of a language; its code where that is unknown."""
    return NAMES.get(code, code)


@cache
def load_identifier() -> Any:
    """The model of py3langid; reading it takes a second.

    Raises:
        ModuleNotFoundError: py3langid is not installed.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def detect(texts: Sequence[str]) -> str | None:
    """The language of most of the texts; None where it is not clear, or py3langid is needed and not installed."""
    chosen = texts[:: max(1, len(texts) // TEXTS)]
    script = script_of(chosen)
    if script in BY_SCRIPT or not script or sum(map(len, chosen)) < SHORTEST:
        return BY_SCRIPT.get(script)
    try:
        identifier = load_identifier()
    except ModuleNotFoundError:
        return None
    parts = (" ".join(chosen[first::VOTES]).strip() for first in range(min(VOTES, len(chosen))))
    votes = Counter(canonical(identifier.rank(part)[0][0]) for part in parts if part)
    language, count = votes.most_common(1)[0]
    return language if 2 * count > votes.total() and language not in NO_LANGUAGE else None


THREE_LETTERS = {
    "ara": "ar", "bul": "bg", "ces": "cs", "chi": "zh", "cmn": "zh", "cze": "cs", "dan": "da", "deu": "de", "dut": "nl",
    "ell": "el", "eng": "en", "epo": "eo", "est": "et", "fin": "fi", "fra": "fr", "fre": "fr", "ger": "de", "heb": "he",
    "hin": "hi", "hun": "hu", "ind": "id", "ita": "it", "jpn": "ja", "kor": "ko", "lav": "lv", "lit": "lt", "nld": "nl",
    "nob": "nb", "pes": "fa", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro", "rus": "ru", "slk": "sk", "slv": "sl",
    "spa": "es", "srp": "sr", "swe": "sv", "tha": "th", "tur": "tr", "ukr": "uk", "vie": "vi", "zho": "zh",
}  # fmt: skip
AROUND = {"text", "sentence", "sentences", "translation", "source", "target", "src", "tgt", "trg", "lang", "train"}


def code_in_name(name: str) -> str | None:
    """The language that the name of a column or the ending of a file stands for.

    >>> [code_in_name(name) for name in ("en", "pt-BR", "German", "text_fr", "jpn", "label", "id", "is_new")]
    ['en', 'pt', 'de', 'fr', 'ja', None, None, None]
    """
    parts = [part for part in re.split(r"[_. ]", name.strip().lower()) if part not in AROUND]
    if len(parts) != 1 or parts[0] == "id":  # an identifier far more often than Indonesian
        return None
    codes = {full.lower(): code for code, full in NAMES.items()} | THREE_LETTERS
    code = codes.get(parts[0], canonical(parts[0]))
    return code if code in NAMES else None
