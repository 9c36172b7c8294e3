"""The class of every word of the phrasebook."""

from collections import defaultdict

from harken.data.synthetic.phrasebook.english import Word, class_of
from harken.data.synthetic.phrasebook.lexicon import NOUN, VERB
from harken.data.synthetic.phrasebook.splits import load_tagged_phrasebook


def test_every_word_of_many_sentences_has_a_class() -> None:
    splits = load_tagged_phrasebook(seed=3, train=8000)  # a word without a class is a KeyError
    assert {name: len(split) for name, split in splits.items()} == {"test": 500, "valid": 500, "train": 8000}
    seen = defaultdict(set)
    for sentence in splits["train"]:
        assert len(sentence.words) == len(sentence.tags)
        for word, tag in zip(*sentence, strict=True):
            seen[word].add(tag)
    assert seen["clean"] == {"ADJ", "VERB"}
    assert seen["to"] == {"PART", "ADP"}
    assert seen["that"] == {"PRON", "SCONJ"}
    assert seen["the"] == {"DET"} and seen["?"] == {"PUNCT"} and seen["is"] == {"AUX"}
    assert not any("+" in word for word in seen)


def test_splits_share_no_sentence_and_repeat() -> None:
    splits = load_tagged_phrasebook(seed=1, train=300)
    words = [sentence.words for split in splits.values() for sentence in split]
    assert len(set(words)) == len(words)
    assert load_tagged_phrasebook(seed=1, train=300) == splits
    assert load_tagged_phrasebook(seed=2, train=300)["train"] != splits["train"]


def test_words_are_plain_texts_that_know_their_class() -> None:
    assert NOUN["phone"].english == "phone" and class_of(NOUN["phone"].english) == "NOUN"
    assert class_of(VERB["phone"].english_third) == "VERB" and VERB["phone"].english_third == "phones"
    assert hash(Word("cat", "NOUN")) == hash("cat")
