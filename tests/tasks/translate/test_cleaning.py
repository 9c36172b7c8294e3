"""Noisy pairs: each rule, in order, and a translator that scores."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from harken.cli.app import app
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.tasks.translate.corpora.cleaning import Cleaner

RUNNER = CliRunner()
GOOD = [(pair.source, pair.target) for pair in load_phrasebook(train=120).train]
LONG = "and the black cat reads " * 50
NOISE = {
    "empty side": ("hello", " "),
    "too long": (LONG, LONG + "."),
    "length ratio": ("yes", "oui " * 12),
    "copy": ("Click  here", "click here"),
    "other script": ("the cat sleeps", "кошка спит дома"),
    "duplicate": (GOOD[0][0].upper(), GOOD[0][1]),
}


@pytest.mark.parametrize("reason", NOISE)
def test_a_noisy_pair_is_counted_under_its_rule(reason: str):
    cleaner = Cleaner()
    unique = list(dict.fromkeys(GOOD))
    assert list(cleaner.clean([*unique, NOISE[reason], ("good night", "bonne nuit")])) == [
        *unique,
        ("good night", "bonne nuit"),
    ]
    assert dict(cleaner.counts) == {reason: 1}


def test_a_long_sentence_in_another_language_goes():
    pytest.importorskip("py3langid")
    german = "die schwarze Katze schläft heute auf dem großen Sofa, und der Hund bellt laut im Garten"
    english = "the black cat sleeps on the big sofa today, and the dog barks loudly in the garden"
    cleaner = Cleaner(source_language="en", target_language="fr")
    assert list(cleaner.clean([(english, german), ("no", "nein")])) == [("no", "nein")]  # the latter is too short
    assert dict(cleaner.counts) == {"other language": 1}


def test_pairs_that_a_translator_finds_improbable_go():
    def score(sources, targets):
        return [SimpleNamespace(score=-len(target)) for target in targets]

    cleaner = Cleaner(translator=SimpleNamespace(score=score), min_score=-5)
    assert list(cleaner.clean([("a b", "c d"), ("a c", "cc ddd"), ("a d", "cc dd")])) == [
        ("a b", "c d"),
        ("a d", "cc dd"),
    ]
    assert dict(cleaner.counts) == {"low score": 1}


def test_the_command_writes_pairs_and_prints_counts(tmp_path):
    path, out = tmp_path / "pairs.tsv", tmp_path / "clean.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [*GOOD[:30], *NOISE.values()]), encoding="utf-8")
    result = RUNNER.invoke(app, ["clean", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = dict(line.split("\t")[:2] for line in result.stdout.splitlines() if "\t" in line)
    unique = len({(a.lower(), b) for a, b in GOOD[:30]})
    assert {**dict.fromkeys(NOISE, "1"), "read": "36", "clean": str(unique), "duplicate": str(31 - unique)} == rows
    assert out.read_text(encoding="utf-8").splitlines()[0] == "\t".join(GOOD[0])
    refused = RUNNER.invoke(app, ["clean", str(path), "--out", str(path)])
    assert refused.exit_code == 2 and "is an input itself" in " ".join(refused.output.split())
    refused = RUNNER.invoke(app, ["clean", str(path), "--out", str(out), "--min-score", "-1"])
    assert refused.exit_code == 2 and "belong together" in refused.output
