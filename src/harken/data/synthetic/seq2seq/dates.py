"""Dates as people write them, to dates as programs do: "the 3rd of May, 1987" -> 1987-05-03.

Every day from 1900 to 2049, in 24 forms: numbers, ordinals, months in full or cut, the weekday in front, the year in
words, all letters small or capital. Numbers alone are read as year/month/day or, with dots, as day.month.year, so that
every line has one reading.

>>> from random import Random
>>> pair = draw(Random(2))
>>> pair.source, pair.target
('the 24th of february 1910', '1910-02-24')
>>> in_words(2005), in_words(1900), in_words(2012), in_words(1907)
('two thousand five', 'nineteen hundred', 'twenty twelve', 'nineteen oh seven')
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from harken.data.synthetic.seq2seq import Maker
from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.pairs import Pair

FIRST, LAST = date(1900, 1, 1), date(2049, 12, 31)
WORDS = load_vocabulary("seq2seq")["dates"]
MONTHS, WEEKDAYS, ONES, TENS, ORDINALS, FORMS = (
    WORDS[name] for name in ("months", "weekdays", "ones", "tens", "ordinals", "forms")
)


def draw(random: Random) -> Pair:
    """A day, a form, and small or capital letters now and then."""
    day = FIRST + timedelta(days=random.randrange((LAST - FIRST).days + 1))
    text = random.choice(FORMS).format(
        d=day.day,
        dd=f"{day.day:02}",
        th=f"{day.day}{ending(day.day)}",
        word=ordinal(day.day),
        m=day.month,
        mm=f"{day.month:02}",
        mon=MONTHS[day.month - 1][:3],
        month=MONTHS[day.month - 1],
        y=day.year,
        year=in_words(day.year),
        week=WEEKDAYS[day.weekday()],
        wk=WEEKDAYS[day.weekday()][:3],
    )
    case = random.random()
    return Pair(text.lower() if case < 0.3 else text.upper() if case > 0.95 else text, day.isoformat())


def ending(day: int) -> str:
    """The letters of 1st, 2nd, 3rd, 11th.

    >>> [ending(day) for day in (1, 2, 3, 11, 21, 30)]
    ['st', 'nd', 'rd', 'th', 'st', 'th']
    """
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def ordinal(day: int) -> str:
    """The day in words.

    >>> ordinal(3), ordinal(21), ordinal(30)
    ('third', 'twenty-first', 'thirtieth')
    """
    if day <= 20:
        return ORDINALS[day]
    return "thirtieth" if day == 30 else f"{TENS[day // 10]}-{ORDINALS[day % 10]}"


def number(value: int) -> str:
    """0 to 99 in words."""
    if value < 20:
        return ONES[value]
    return TENS[value // 10] + (f"-{ONES[value % 10]}" if value % 10 else "")


def in_words(year: int) -> str:
    """The year as it is said."""
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return "two thousand" + (f" {ONES[rest]}" if rest else "")
    if rest == 0:
        return f"{number(century)} hundred"
    return f"{number(century)} {f'oh {ONES[rest]}' if rest < 10 else number(rest)}"


MAKER = Maker(draw, meaning=lambda pair: pair.target, source="written", target="iso")
