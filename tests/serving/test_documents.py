"""Sentences, placeholders and HTML around a translator that writes capitals, word for word or in reverse."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from harken.serving.text.atoms import Atom
from harken.serving.text.documents import Document, read_html, read_text, translate_documents
from harken.serving.text.markup import Rules
from harken.serving.text.rendering import render
from harken.serving.translating import _written_attention


class Capitals:
    """Every word in capitals; words with marks of placeholders are lost, or kept where `copies`."""

    def __init__(self, reverse: bool = False, copies: bool = False, aligns: bool = True) -> None:
        self.reverse, self.copies, self.aligns, self.seen = reverse, copies, aligns, list[str]()

    async def __call__(self, texts: list[str], aligned: bool, nbest: int) -> list[list[Any]]:
        self.seen += texts
        return [[self.one(text, rank) for rank in range(nbest)] for text in texts]

    def one(self, text: str, rank: int) -> tuple[str, np.ndarray | None]:
        words = text.split()
        order = list(range(len(words)))[:: -1 if self.reverse else 1]
        kept = [index for index in order if self.copies or not set("{@/%😀") & set(words[index])]
        written = [
            words[index] if self.copies and set("{@/%😀") & set(words[index]) else words[index].upper()
            for index in kept
        ]
        links = np.eye(len(words))[kept] if kept else np.zeros((0, len(words)))
        return " ".join(written) + str(rank or ""), links if self.aligns else None


def translated(document: Document, **options: Any) -> str:
    return asyncio.run(translate_documents([document], Capitals(**options)))[0][0]


def text(given: str, **options: Any) -> str:
    return translated(read_text(given), **options)


def html(given: str, **options: Any) -> str:
    return translated(read_html(given), **options)


def test_lines_and_spaces_around_them_are_kept() -> None:
    assert text("  one line\n\n\tanother\r\nthird  ") == "  ONE LINE\n\n\tANOTHER\r\nTHIRD  "


def test_sentences_are_translated_one_by_one_and_each_once() -> None:
    capitals = Capitals(reverse=True)
    found = asyncio.run(translate_documents([read_text("The cat. A dog sleeps? The cat.")], capitals))
    assert found == [["CAT. THE SLEEPS? DOG A CAT. THE"]]
    assert capitals.seen == ["The cat.", "A dog sleeps?"]


@pytest.mark.parametrize(
    "held",
    [
        "{name}",
        "{{count}}",
        "%s",
        "%(user)s",
        "%1$d",
        "${path}",
        "https://a.org/b?c=d",
        "www.a.org",
        "me@a.org",
        "😀",
        "👩‍💻",
        "🇫🇷",
    ],
)
def test_placeholders_survive_whether_or_not_the_model_copies_them(held: str) -> None:
    given = f"you have {held} here"
    for copies in (False, True):
        assert text(given, copies=copies) == f"YOU HAVE {held} HERE"
        assert text(given, copies=copies, reverse=True).count(held) == 1


def test_punctuation_stays_with_its_placeholder() -> None:
    assert text("hello {name}, see (https://a.org).") == "HELLO {name}, SEE (https://a.org)."


def test_text_without_letters_is_copied() -> None:
    capitals = Capitals()
    found = asyncio.run(translate_documents([read_text("12:30\n***\n{a} 😀 %s")], capitals))
    assert found == [["12:30\n***\n{a} 😀 %s"]] and capitals.seen == []


def test_letters_beside_a_placeholder_are_translated() -> None:
    assert text("voirhttps://a.org") == "VOIRhttps://a.org"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("<p>the <b>black</b> cat</p>", "<p>THE <b>BLACK</b> CAT</p>"),
        ("<p>a <a href='x?a=1&amp;b=2'>link with words</a> and more</p>",
         "<p>A <a href='x?a=1&amp;b=2'>LINK WITH WORDS</a> AND MORE</p>"),
        ("<b>bold</b>, <i>italic <u>both</u></i>.", "<b>BOLD</b>, <i>ITALIC <u>BOTH</u></i>."),
        ("one<br>two", "ONE<br>TWO"),
        ("a &lt; b &amp; c", "A &lt; B &amp; C"),
        ("<ul>\n <li>one</li>\n <li>two</li>\n</ul>", "<ul>\n <li>ONE</li>\n <li>TWO</li>\n</ul>"),
        ("use <code>x &lt; 1</code> here", "USE <code>x &lt; 1</code> HERE"),
        ("<script>let a = 1 < 2;</script><p>one</p>", "<script>let a = 1 < 2;</script><p>ONE</p>"),
        ("<p translate=no>one</p>", "<p translate=no>one</p>"),
        ("<p class='a notranslate'>two</p>", "<p class='a notranslate'>two</p>"),
        ("<p>see <img src=a.png> now</p>", "<p>SEE <img src=a.png> NOW</p>"),
        ("<a name=top></a><h1>one</h1>", "<a name=top></a><h1>ONE</h1>"),
        ("<!doctype html><!-- note --><p>one", "<!doctype html><!-- note --><p>ONE"),
        ("un<b>known</b> word", "<b>UNKNOWN</b> WORD"),
        ("<p>{x} <b>one</b></p>", "<p>{x} <b>ONE</b></p>"),
        ("one</b> two</i>", "ONE TWO"),
        ("a <b and c", "A &lt;B AND C"),
        ("<pre>a&nbsp;b</pre>", "<pre>a&nbsp;b</pre>"),
        ("<a title='it>is'>one</a>", "<a title='it>is'>ONE</a>"),
        ("<![CDATA[ one > two ]]>three", "<![CDATA[ one > two ]]>THREE"),
        ("plain", "PLAIN"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_keeps_its_tags_around_their_words(given: str, wanted: str) -> None:
    assert html(given) == wanted


def test_tags_follow_their_words_where_the_order_changes() -> None:
    assert (
        html("<p>the <b>black</b> <i>cat</i> sleeps</p>", reverse=True) == "<p>SLEEPS <i>CAT</i> <b>BLACK</b> THE</p>"
    )


def test_a_tag_whose_words_have_no_counterpart_is_kept() -> None:
    atoms = read_html("go <b>very</b> far")

    async def drops(texts: list[str], aligned: bool, nbest: int) -> list[list[Any]]:
        return [[("GO FAR", np.array([[0.9, 0.1, 0.0], [0.0, 0.4, 0.6]]))] for _ in texts]

    assert asyncio.run(translate_documents([atoms], drops)) == [["GO <b>FAR</b>"]]


@pytest.mark.parametrize("copies", [False, True])
def test_a_url_in_html_is_escaped_once(copies: bool) -> None:
    given = "<p>see <b>https://a.org?x=1&amp;y=2</b> now</p>"
    assert html(given, copies=copies) == given.replace("see", "SEE").replace("now", "NOW")


@pytest.mark.parametrize(
    "text",
    [
        "a" * 50_000, "%" + "0" * 50_000, "{" * 50_000, "a@" * 25_000, "<" * 50_000, "." * 50_000, "%" * 50_000,
        "<b>" * 5000 + "a " * 17_000, "<a " * 16_000, "<a b='" * 8000, "<a b='" * 8000 + ">", "<!--" * 12_500,
        "<b>a</b> " * 5000, "<code>" * 8000, "<![" * 16_000,
    ],
)  # fmt: skip
def test_no_text_takes_quadratic_time(text: str) -> None:
    started = time.process_time()
    for read in (read_text, read_html):
        asyncio.run(translate_documents([read(text)], Capitals()))
    assert time.process_time() - started < 5


def test_tags_that_are_nested_too_deeply_stay() -> None:
    given = "<b>" * 40 + "one" + "</b>" * 40
    assert html(given).replace(" ", "") == given.replace("one", "ONE")


def test_xml_elements_belong_to_words_but_for_those_that_split() -> None:
    rules = Rules(frozenset(("keep",)), frozenset(("par",)))
    given = "<Par>one <X id='1'>two</X> <keep>three</keep> <y/></Par><Par>four</Par>"
    wanted = "<Par>ONE <X id='1'>TWO</X> <keep>three</keep> <y/></Par><Par>FOUR</Par>"
    assert translated(read_html(given, rules)) == wanted


def test_without_attention_words_are_aligned_by_their_order() -> None:
    assert html("the <b>black</b> cat", aligns=False) == "THE <b>BLACK</b> CAT"


def test_alternatives_are_put_together_by_rank() -> None:
    found = asyncio.run(translate_documents([read_text("one. Two.")], Capitals(), alternatives=2))
    assert found == [["ONE. TWO.", "ONE.1 TWO.1", "ONE.2 TWO.2"]]
    assert asyncio.run(translate_documents([read_text("12")], Capitals(), alternatives=2)) == [["12"]]


def test_tags_of_unspaced_translations_are_around_their_letters() -> None:
    atoms = [Atom("the"), Atom("black", (0,)), Atom("cat"), Atom("{x}", opaque=True), Atom("sleeps")]
    weights = np.eye(4)[[1, 1, 2, 2, 3, 3, 3]]  # 黒い猫は眠る。
    rendered = render(atoms, "黒い猫は眠る。", weights, [("<b>", "</b>")])
    assert rendered == "<b>黒い</b>猫は {x} 眠る。"
    assert render([Atom("a"), Atom("b", (0,))], "猫 b", np.eye(2), [("<b>", "</b>")]) == "猫 <b>b</b>"


def test_attention_is_that_of_the_letters_that_are_written() -> None:
    hypothesis = {
        "text": "黒い猫 ok",
        "target_words": ["黒い", "猫", "ok"],
        "source_words": ["a", "cat"],
        "attention": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
    }
    rows = _written_attention("a cat", hypothesis)
    assert rows is not None and rows.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
