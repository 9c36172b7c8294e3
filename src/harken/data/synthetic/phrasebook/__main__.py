"""Print samples: `python -m harken.data.synthetic.phrasebook --n 30 --seed 1`."""

from __future__ import annotations

import argparse
from itertools import islice

from harken.data.synthetic.phrasebook import generate


def main() -> None:
    """Print English, French and Pharaoh links (`i-j` sure, `i?j` possible) of a few pairs."""
    parser = argparse.ArgumentParser(prog="python -m harken.data.synthetic.phrasebook", description=main.__doc__)
    parser.add_argument("--n", type=int, default=30, help="how many pairs")
    parser.add_argument("--seed", type=int, default=1, help="which stream of pairs")
    arguments = parser.parse_args()
    for pair in islice(generate(arguments.seed), arguments.n):
        assert pair.alignment is not None
        print(pair.source, pair.target, pair.alignment.to_pharaoh(), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
