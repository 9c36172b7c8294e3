"""Made sentences with words of two senses."""

from harken.data.synthetic.two_senses import SENSES, SLOT, sentences


def test_the_same_seed_makes_the_same_sentences() -> None:
    assert sentences(50, seed=1) == sentences(50, seed=1) != sentences(50, seed=2)


def test_every_sense_has_its_topic_on_both_sides_of_the_word() -> None:
    for word, senses in SENSES.items():
        topics = [{name for words in sense["lists"].values() for name in words.split()} for sense in senses]
        assert not topics[0] & topics[1]  # neighbours tell the senses apart
        for sense in senses:
            for template in sense["templates"]:
                before, after = template.split("*")
                assert SLOT.search(before) and SLOT.search(after) and template.count("*") == 1
                assert set(SLOT.findall(template)) <= set(sense["lists"])
            assert word not in sense["peers"].split()


def test_a_sentence_knows_its_word() -> None:
    for made in sentences(200, seed=1, peers=0.5):
        sense = SENSES[made.word][made.sense]
        assert made.words[made.position] in (made.word, *sense["peers"].split())
        assert made.topic <= set(made.words) and len(made.topic) == 2
    assert all(made.words[made.position] == made.word for made in sentences(50, seed=1, peers=0.0))
