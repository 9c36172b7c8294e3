"""phrasebook: a synthetic English-French corpus with gold word alignments, made by a grammar. Nothing is downloaded.

>>> from harken.data.synthetic.phrasebook import generate
>>> pair = next(generate(seed=1))
>>> pair.alignment.sure <= pair.alignment.possible
True
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.splits import generate, load_phrasebook

__all__ = ["generate", "load_phrasebook"]
