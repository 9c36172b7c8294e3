"""Language codes and their names, as clients write them: en, EN, en-GB, zh_CN, iw.

>>> canonical("EN-gb"), canonical("iw"), language_name("fr"), language_name("xx")
('en', 'he', 'French', 'xx')
"""

from __future__ import annotations

NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "ko": "Korean", "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ms": "Malay",
    "nb": "Norwegian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
OLD = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "jp": "ja", "cn": "zh"}  # older or wrong codes still in use


def canonical(code: str) -> str:
    """A code in lower case, without region or script."""
    short = code.strip().lower().replace("_", "-").split("-")[0]
    return OLD.get(short, short)


def language_name(code: str) -> str:
    """The English name of a language; its code where that is unknown."""
    return NAMES.get(code, code)
