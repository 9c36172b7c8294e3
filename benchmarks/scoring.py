"""BLEU of a tool's translations of Multi30k's validation and test data."""

from pathlib import Path

from measurement import Measurement


def bleu_score(hypotheses: list[str], reference: Path) -> float:
    """sacrebleu, 13a, cased.

    Raises:
        ValueError: the numbers of lines differ.
    """
    import sacrebleu

    references = reference.read_text(encoding="utf-8").splitlines()
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} lines for {len(references)}")
    return round(sacrebleu.corpus_bleu(hypotheses, [references]).score, 2)


def note_bleu(result: Measurement, raw: Path, validation: Path, test: Path, errors: str) -> None:
    """Notes both scores, or why there are none."""
    try:
        result.validation_bleu = bleu_score(validation.read_text(encoding="utf-8").splitlines(), raw / "val.en")
        result.bleu = bleu_score(test.read_text(encoding="utf-8").splitlines(), raw / "test_2016_flickr.en")
    except (OSError, ValueError) as error:
        result.problem = f"decoding failed ({error}): {' | '.join(errors.strip().splitlines()[-3:])}"
