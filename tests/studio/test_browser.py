"""The page in a real browser: every view, keyboard, both themes, axe's accessibility rules, no request elsewhere."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.inspection.figure.spec import (
    Bars,
    Figure,
    Group,
    Heat,
    Images,
    Lines,
    Raster,
    Series,
    Strips,
    Strokes,
    Tokens,
)  # fmt: skip
from harken.inspection.figure.tree import Branch
from harken.inspection.pictures.beam import BeamPicture
from harken.serving.keys import new_key
from harken.serving.limits import hosts_of
from harken.serving.settings import ServerSettings
from harken.studio.app import create_studio_app
from harken.studio.figures import figures_json
from harken.training.folder import RunLock

from .test_routes import listening

CHROMIUM = next(
    (Path(place) for place in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(place).exists()), None
)
if CHROMIUM is None:
    pytest.skip("there is no chromium in /usr/bin", allow_module_level=True)
playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

expect = playwright_api.expect
expect.set_options(timeout=120_000)
AXE = Path(__file__).with_name("axe.min.js")
WAIT = 120_000  # milliseconds; machines are shared


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    """The studio of the tiny runs on a free port."""
    with listening(create_studio_app(runs)) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright_api.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page of 1200 x 800; afterwards it must have said nothing in the console and asked no other host."""
    context = browser.new_context(
        viewport={"width": 1200, "height": 800}, color_scheme="light", reduced_motion="reduce"
    )
    found = context.new_page()
    found.set_default_timeout(WAIT)
    said: list[str] = []
    found.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    found.on("pageerror", lambda problem: said.append(str(problem)))
    asked: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    yield found
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def violations(page: Any) -> list[str]:
    """What axe finds wrong under WCAG A and AA; it is run outside the page's policy, as the browser itself does."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found["violations"]]


def test_types_links_alternatives_and_n_best(page: Any, address: str) -> None:
    page.goto(f"{address}/#translate?model=transformer")
    box = page.get_by_label("Text", exact=True)
    box.fill("the cat sees the dog")
    source = page.locator(".words.source .word")
    target = page.locator(".words.target .word")
    expect(page.locator(".words.source .word")).to_have_count(5)
    assert source.all_inner_texts() == ["the", "cat", "sees", "the", "dog"]
    assert "text=the+cat+sees+the+dog" in page.url  # the address is a link to this state
    target.first.hover()
    tints = source.evaluate_all("words => words.map(word => word.style.getPropertyValue('--tint'))")
    assert any("color-mix" in tint for tint in tints)
    source.nth(1).focus()  # and the other way round, by the keyboard
    tints = target.evaluate_all("words => words.map(word => word.style.getPropertyValue('--tint'))")
    assert any("var(--ink)" in tint for tint in tints)
    target.first.click()
    ways = page.get_by_role("group", name="Alternatives").locator(".options button")
    ways.nth(1).wait_for()
    chosen = ways.nth(1).locator("b").first.inner_text()
    ways.nth(1).click()
    page.get_by_text("Back to the best translation").wait_for()
    assert target.first.inner_text().lower() == chosen.lower()
    page.get_by_label("Best translations").fill("3")
    expect(page.locator(".ranked button")).to_have_count(3)
    assert violations(page) == []


ENGLISH = "the old teacher who lives in the small village gave a red book to the young doctor"
ARABIC = "رأى القط الأسود الكلب الصغير في الحديقة الجميلة قبل أن يعود إلى بيته القديم مساء أمس"
JAPANESE = "黒い 猫 は 庭 で 小さな 犬 を 見 まし た"


def answer_with(page: Any, source: str, target: str) -> None:
    """Answer every translation with a word for each word, which it attends to with 0.8 and its neighbour with 0.2."""
    sources, targets = source.split(), target.split()
    shares = {0: 0.8, 1: 0.2}  # by the distance between the words
    weights = [[shares.get(s - t, 0.0) for s in range(len(sources))] for t in range(len(targets))]
    result = {
        "source": source, "text": target, "raw": target, "score": -1.0, "attention": weights,
        "source_words": [{"text": word, "unknown": False} for word in sources],
        "words": [{"text": word, "probability": 0.9} for word in targets],
    }  # fmt: skip
    body = f"data: {json.dumps({'done': [result]})}\n\n"
    page.route("**/studio/translate", lambda route: route.fulfill(body=body, content_type="text/event-stream"))


def drawn_links(page: Any) -> dict[tuple[int, int], float]:
    """The lines by target and source word, and how far their ends are from those words, in pixels."""
    ends = page.evaluate("""() => {
        const frame = document.querySelector(".ribbon").getBoundingClientRect();
        const boxOf = (word) => word.getBoundingClientRect();
        const [sources, targets] = ["source", "target"].map((side) =>
            [...document.querySelectorAll(`.${side} .word`)].map(boxOf));
        return [...document.querySelectorAll("path[data-link]")].map((path) => {
            const [t, s] = path.dataset.link.split(" ").map(Number), length = path.getTotalLength();
            const [from, to] = [path.getPointAtLength(0), path.getPointAtLength(length)];
            const middle = (box) => box.left + box.width / 2 - frame.left;
            const across = [from.x - middle(sources[s]), to.x - middle(targets[t])];
            const [start, end] = targets[t].top > sources[s].top ? ["bottom", "top"] : ["top", "bottom"];
            const down = [from.y + frame.top - sources[s][start], to.y + frame.top - targets[t][end]];
            return [t, s, Math.max(...across.map(Math.abs), ...down.map(Math.abs))];
        });
    }""")
    return {(t, s): off for t, s, off in ends}


def settled_links(page: Any) -> dict[tuple[int, int], float]:
    """`drawn_links` when all lines end at their words, for which layout may need a moment."""
    for _ in range(300):
        links = drawn_links(page)
        if links and max(links.values()) < 1:
            break
        page.wait_for_timeout(50)
    return links


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("target", [ENGLISH.upper(), ARABIC, JAPANESE], ids=["latin", "arabic", "japanese"])
def test_lines_end_at_their_words_however_these_wrap(page: Any, address: str, width: int, target: str) -> None:
    answer_with(page, ENGLISH, target)
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{address}/#translate?model=transformer&text=any")
    page.wait_for_selector("path[data-link]")
    words = page.locator(".words.target .word")
    wraps = width == 390
    expect(page.locator(".ribbon.wrapped")).to_have_count(int(wraps))
    strongest = {(t, t) for t in range(len(target.split()))}
    links = settled_links(page)
    assert set(links) >= strongest and (set(links) == strongest) == wraps and max(links.values()) < 1
    left = words.evaluate_all("all => all.map(word => word.getBoundingClientRect().left)")
    assert (left[0] > left[1]) == (target == ARABIC)  # the first word is on the right
    page.set_viewport_size({"width": 1670 - width, "height": 844})
    expect(page.locator(".ribbon.wrapped")).to_have_count(int(not wraps))
    assert max(settled_links(page).values()) < 1
    words.nth(2).focus()
    expect(page.locator("path[data-link='2 3']")).to_have_count(1)  # all lines of this word


@pytest.mark.parametrize(
    ("target", "apart"), [("les chats voient le chien", False), (" ".join(ARABIC.split()[:5]), True)]
)
def test_sentences_of_opposite_directions_are_one_above_the_other(
    page: Any, address: str, target: str, apart: bool
) -> None:
    """At the two ends of a wide window their lines would be one bundle."""
    answer_with(page, "the cats see the dog", target)
    page.goto(f"{address}/#translate?model=transformer&text=any")
    page.wait_for_selector("path[data-link]")
    expect(page.locator(".ribbon.opposite")).to_have_count(int(apart))
    assert max(settled_links(page).values()) < 1
    boxes = [
        page.locator(f".words.{side} .word").evaluate_all("all => all.map(word => word.getBoundingClientRect().left)")
        for side in ("source", "target")
    ]
    assert abs(min(boxes[0]) - min(boxes[1])) < 120  # pixels of 1,200


def test_languages_of_the_words_are_named(page: Any, address: str) -> None:
    answer_with(page, "the cat", "le chat")
    page.goto(f"{address}/#translate?model=transformer&text=any")
    expect(page.locator(".words.source")).to_have_attribute("lang", "en")
    expect(page.locator(".words.target")).to_have_attribute("lang", "fr")
    expect(page.get_by_label("Text", exact=True)).to_have_attribute("dir", "auto")


def test_unknown_words_are_marked_and_a_link_restores_the_state(page: Any, address: str) -> None:
    page.goto(f"{address}/#translate?model=attention&text=the+zzyzx+sleeps&beam=2")
    page.wait_for_selector(".word.unknown")
    assert "zzyzx" in page.locator(".word.unknown").all_inner_texts()
    assert page.locator("#text").input_value() == "the zzyzx sleeps"
    assert page.get_by_label("Beam").input_value() == "2"


def test_saves_a_file_that_works_without_the_server(page: Any, address: str, tmp_path: Path) -> None:
    page.goto(f"{address}/#translate?model=transformer&text=the+cat+sleeps")
    page.wait_for_selector(".words.target .word")
    wanted = page.locator(".words.target .word").all_inner_texts()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as HTML").click()
    download.value.save_as(tmp_path / "saved.html")
    other = page.context.browser.new_context(offline=True).new_page()
    other.goto((tmp_path / "saved.html").as_uri())
    assert other.locator(".target span").all_inner_texts() == wanted
    assert other.locator(".target").get_attribute("lang") == "fr"
    other.locator(".target span").first.hover()
    links = other.locator(".source span").evaluate_all("all => all.map(one => one.style.getPropertyValue('--link'))")
    assert any(float(one or 0) > 0.1 for one in links)
    other.context.close()


def test_a_head_and_a_word_are_switched_off(page: Any, address: str) -> None:
    page.goto(f"{address}/#inside?model=transformer&text=the+cat+sees+the+dog")
    page.wait_for_selector(".headgrid button")
    assert page.locator(".headgrid button").count() == 2  # one layer, two heads
    page.get_by_role("button", name="Switch this head off").click()
    page.get_by_role("heading", name="What changes").wait_for()
    page.locator(".words.source .word").nth(1).click()
    page.wait_for_selector(".word.gone")
    page.get_by_role("button", name="Everything on").click()
    page.get_by_role("heading", name="What changes").wait_for(state="detached")
    assert violations(page) == []


def test_gates_stand_above_the_sentence(page: Any, address: str) -> None:
    page.goto(f"{address}/#inside?part=gates&model=attention&text=the+cat+sees+the+dog")
    page.wait_for_selector(".heat")
    titles = page.locator(".panel h3").all_inner_texts()
    assert titles[:2] == ["forget gate", "input gate"]
    page.get_by_role("button", name="decoder").click()
    page.get_by_text("decoder (LSTM)").wait_for()
    assert page.locator(".heat thead th").first.inner_text() == "<s>"


def test_the_beam_tree_grows_step_by_step(page: Any, address: str) -> None:
    page.goto(f"{address}/#search?model=transformer&text=the+cat+sees+the+dog&beam=3")
    page.wait_for_selector(".tree g")
    whole = page.locator(".tree g").count()
    page.get_by_role("slider", name="Step").fill("1")
    expect(page.locator(".tree g[data-step='2']")).to_have_count(0)
    assert set(page.locator(".tree g").evaluate_all("all => all.map(one => one.dataset.step)")) == {"1"}
    page.get_by_role("button", name="One step on").click()
    page.locator(".tree g[data-step='2']").first.wait_for()
    assert page.locator(".tree g").count() < whole
    page.get_by_label("Beam:").fill("1")
    expect(page.locator(".plain tbody tr")).to_have_count(1)
    assert violations(page) == []


def test_a_wide_tree_fades_at_its_edges_scrolls_by_keys_and_follows_the_step(page: Any, address: str) -> None:
    words = ARABIC.split() + JAPANESE.split()
    nodes = [
        {"parent": at - 1, "step": at + 1, "text": word, "log_probability": -0.1, "total": -0.1 * at, "outcome": "best"}
        for at, word in enumerate(words)
    ]
    nodes.append({**nodes[3], "text": "dropped", "outcome": "dropped"})
    terms = dict.fromkeys(("log_probability", "rules", "divisor", "reward", "coverage", "rank"), -1.0)
    hypothesis = {"text": " ".join(words), "tokens": len(words), "finished": True, **terms}
    beam = {"nodes": nodes, "hypotheses": [hypothesis], "reason": ""}
    page.route("**/studio/beam", lambda route: route.fulfill(json=beam))
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/#search?model=transformer&text=any")
    tree = page.get_by_role("region", name="Beam tree")
    frame = page.locator(".frame", has=page.locator(".tree"))
    expect(frame).to_have_attribute("data-more", "right")
    overlaps = tree.evaluate("""tree => [...tree.querySelectorAll("g")].filter((node) => {
        const [word, number] = [...node.querySelectorAll("text")].map((text) => text.getBBox());
        return word.x + word.width > number.x;
    }).length""")
    assert overlaps == 0  # in every script
    tree.focus()
    page.keyboard.press("ArrowRight")
    expect(frame).to_have_attribute("data-more", "left right")
    page.keyboard.press("Home")
    page.get_by_role("slider", name="Step").fill(str(len(words) - 1))
    page.get_by_role("button", name="One step on").click()
    expect(frame).to_have_attribute("data-more", "left")
    page.locator("details", has_text="Values as a table").locator("summary").click()
    expect(page.get_by_role("cell", name=" ".join(words[:4]), exact=True)).to_be_visible()
    assert violations(page) == []


def test_arrow_keys_choose_tabs(page: Any, address: str) -> None:
    page.goto(f"{address}/#translate?model=transformer&text=the+cat")
    page.get_by_role("link", name="Translate", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("link", name="Look inside")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("Look inside")
    page.get_by_role("button", name="Attention", exact=True).focus()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Embeddings")).to_have_attribute("aria-pressed", "true")


STUB = """
import json, sys
from harken.studio import example, worker

example.STEPS = 4
example.SETTINGS = (*example.SETTINGS, "train.max_steps=4", "train.log_every=1", "data.size=200")
worker.main(worker.Library(**{key: value for key, value in json.loads(sys.argv[1]).items() if key != "plugins"}))
"""


def test_gates_and_gradients_are_never_empty(
    browser: Any, runs: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no model is recurrent, the studio trains a small one, once."""
    (tmp_path / "stub.py").write_text(STUB)
    monkeypatch.setattr("harken.studio.workers.COMMAND", [sys.executable, str(tmp_path / "stub.py")])
    try:
        with listening(create_studio_app(runs / "transformer")) as url, browser.new_context() as context:
            page = context.new_page()
            page.set_default_timeout(WAIT)
            page.goto(f"{url}/#inside?part=gates")
            page.get_by_text("Training a small LSTM").wait_for()
            page.wait_for_selector(".heat")
            assert page.get_by_label("Model").input_value() == "small-lstm"
            page.get_by_role("button", name="Gradients").click()
            page.get_by_role("button", name="Measure").click()
            page.wait_for_selector(".chart path")
            assert violations(page) == []
    finally:
        shutil.rmtree(cache / "harken")


def test_two_models_side_by_side(page: Any, address: str) -> None:
    page.goto(f"{address}/#compare?modela=attention&modelb=transformer&text=the+cat+sees+the+dog")
    expect(page.locator(".ribbon")).to_have_count(2)
    page.get_by_role("status").filter(has_text="words of A").or_(
        page.get_by_text("Both translations are the same")
    ).wait_for()
    assert (
        page.get_by_role("region", name="Side A").is_visible()
        and page.get_by_role("region", name="Side B").is_visible()
    )


def test_curves_of_the_runs_and_sliders_of_the_lab(page: Any, address: str) -> None:
    page.goto(f"{address}/#train")
    page.wait_for_selector(".chart circle")
    assert page.locator(".runs tbody tr").count() == 3
    assert violations(page) == []
    page.goto(f"{address}/#lab?claim=vanishing&s=0.5")
    page.get_by_text("so it vanishes").wait_for()
    page.get_by_label("Largest singular value s").fill("2")
    page.get_by_text("so it explodes").wait_for()
    assert violations(page) == []


def test_a_chapter_is_read_by_keyboard_and_predictions_come_first(page: Any, address: str) -> None:
    page.goto(f"{address}/#learn?chapter=1&section=3")
    expect(page.get_by_role("heading", name="One-hot vectors", level=2)).to_be_visible()
    assert page.get_by_role("navigation", name="Chapters").get_by_role("button").count() == 8
    after = page.get_by_text("They are the same.")
    expect(after).to_have_count(0)
    page.get_by_role("textbox", name="Your guess").fill("cat to dog")
    page.keyboard.press("Enter")
    expect(page.get_by_text("You guessed: cat to dog")).to_be_focused()
    expect(after).to_be_visible()
    answer = page.get_by_role("textbox", name="Your answer to exercise 1a")
    answer.fill("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Not yet. You squared the differences")).to_be_visible()
    answer.fill("sqrt(2)")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Right. Two one-hot vectors differ")).to_be_visible()
    answer.fill("many")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="'many' cannot be read; write a number")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Next section").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Embeddings", level=2)).to_be_focused()
    page.get_by_role("combobox", name="Section 4 of 9").select_option("Where to read on")
    expect(page.get_by_role("button", name="Next chapter")).to_be_visible()
    page.get_by_role("link", name="2. The recurrent network").click()
    expect(page.get_by_role("heading", name="2. The recurrent network", level=2)).to_be_visible()


def test_gates_are_moved_by_arrow_keys(page: Any, address: str) -> None:
    page.goto(f"{address}/#learn?chapter=4&section=3")
    page.get_by_role("button", name="Show what happens").first.click()
    for name, key in (("Input gate at the star", "End"), ("Input gate elsewhere", "Home")):
        page.get_by_role("slider", name=name).focus()
        page.keyboard.press(key)
    page.get_by_role("slider", name="Forget gate elsewhere").focus()
    page.keyboard.press("End")
    expect(page.get_by_text("it has kept what had the star, and nothing else")).to_be_visible()
    assert "gates.forget_else=1" in page.url
    page.keyboard.press("Home")
    expect(page.get_by_text("move the gates until it holds just that")).to_be_visible()
    assert violations(page) == []


def test_a_weight_that_is_dragged_becomes_the_readers_own(page: Any, address: str) -> None:
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data))
        drawn = figures_json([Figure("", [Bars("the next word", "", "", ["il"], [Group("", [1.0])])])])
        route.fulfill(json={"values": {}, "said": "Written: ak.", "figures": drawn, "table": None})

    page.route("**/studio/learn/live", answer)
    page.goto(f"{address}/#learn?chapter=6&section=2")
    expect(page.get_by_role("img", name="the next word")).to_be_visible()
    page.get_by_role("slider", name="My weight of ka").fill("0.8")
    expect(page.get_by_role("combobox", name="Weights")).to_have_value("mine")
    page.wait_for_function("() => location.hash.includes('weights.w1=0.8')")
    for _ in range(600):
        if asked[-1]["values"]["w1"] == 0.8:
            break
        page.wait_for_timeout(50)
    assert asked[0]["values"]["whose"] == "the network's" and asked[-1]["name"] == "weights"
    assert asked[-1]["values"]["whose"] == "mine"


def test_outputs_of_a_chapter_stand_below_its_code(page: Any, address: str) -> None:
    figure = {"figures": figures_json([Figure("", [Bars("", "", "", ["a"], [Group("", [1.5])])])])}
    sent = [{"cell": "one-hot-vectors", "outputs": ["cat   [1.0, 0.0]\n", figure]}, {"done": 1}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in sent)
    page.route("**/studio/learn/run", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    page.goto(f"{address}/#learn?chapter=1&section=3")
    page.goto(f"{address}/#learn?chapter=1&section=5")
    page.get_by_role("button", name="Show what happens").click()
    page.get_by_role("button", name="Run the chapter for this picture").focus()
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Section 5 of 9").select_option("One-hot vectors")
    expect(page.get_by_role("region", name="Output")).to_have_text("cat   [1.0, 0.0]")
    expect(page.locator(".lesson .chart")).to_be_visible()
    expect(page.get_by_text("The outputs are below the code.")).to_be_visible()
    page.get_by_role("button", name="2. The recurrent network").click()
    page.get_by_role("button", name="1. Sequences and language models").click()
    page.get_by_role("button", name="Next section").click()
    page.get_by_role("button", name="Next section").click()
    expect(page.get_by_role("region", name="Output")).to_be_visible()  # they are kept


@pytest.mark.parametrize(("chapter", "section"), [(1, 7), (7, 5)])  # cells named otherwise than "picture ..."
def test_every_picture_of_a_chapter_is_offered(page: Any, address: str, chapter: int, section: int) -> None:
    page.goto(f"{address}/#learn?chapter={chapter}&section={section}")
    page.get_by_role("button", name="Show what happens").click()
    expect(page.get_by_role("button", name="Run the chapter for this picture")).to_be_visible()


def test_no_section_of_the_course_is_wider_than_a_phone(page: Any, address: str) -> None:
    page.route(
        "**/studio/learn/live",
        lambda route: route.fulfill(json={"values": {}, "said": "Nothing.", "figures": [], "table": None}),
    )
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    for chapter in range(1, 9):
        page.goto(f"{address}/#learn?chapter={chapter}")
        page.get_by_role("heading", level=2).first.wait_for()
        while True:
            reveal = page.get_by_role("button", name="Show what happens")
            while reveal.count():
                reveal.first.click()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, page.url
            following = page.get_by_role("button", name="Next section")
            if not following.count():
                break
            title = page.get_by_role("heading", level=2).first.inner_text()
            following.click()
            expect(page.get_by_role("heading", level=2).first).not_to_have_text(title)
    assert violations(page) == []


def test_a_running_training_appears_and_its_curve_grows(page: Any, address: str, runs: Path) -> None:
    live = runs / "live"
    live.mkdir()
    try:
        (live / "recipe.toml").write_text('task = "translate"\n[train]\nmax_steps = 40\n')
        line = '{{"kind": "train", "step": {0}, "loss": {1}, "seconds": {0}}}\n'
        (live / "metrics.jsonl").write_text(line.format(10, 4.0))
        with RunLock(live):
            page.goto(f"{address}/#train?runs=live")
            row = page.get_by_role("row", name="live")
            expect(row.locator(".state")).to_have_text("running")
            expect(page.locator(".chart circle")).to_have_count(1)
            with (live / "metrics.jsonl").open("a") as file:
                file.write(line.format(20, 2.0))
            expect(page.locator(".chart path[d*='L']")).to_have_count(1)  # a line of two points
            assert row.get_by_role("cell", name="20", exact=True).is_visible()
    finally:
        shutil.rmtree(live)


def test_a_classifier_shows_weights_over_words(page: Any, address: str) -> None:
    page.goto(f"{address}/#jobs?model=opinions&text=the+film+was+not+good")
    page.wait_for_selector(".heat")
    assert page.locator(".heat thead th").all_inner_texts() == ["the", "film", "was", "not", "good"]
    assert violations(page) == []


def test_every_kind_of_figure_has_its_values_or_its_name_as_text(page: Any, address: str) -> None:
    names, weights = ["猫", "قط", "cat"], np.full((3, 20), 0.5)
    panels = {
        "0.75": Lines("", "step", "loss", [Series("a", [1, 2], [0.5, 0.75])]),
        "0.25": Bars("", "word", "share", names, [Group("a", [0.25, 0.5, 1.0])]),
        "0.50": Heat("dense", "", "", [f"w{at}" for at in range(20)], names, weights, form=""),
        "symbols": Raster("symbols", "seconds", "symbol", weights, (0.0, 1.0), names),
        "1.25": Tokens("", names, [1.25, 0.5, 2.0], "nats", 2.0),
        "a caption": Images("", [], np.zeros((4, 4, 3), dtype=np.uint8), ["a caption"], np.ones((1, 2, 2))),
        "0.125": Strips("", "frame", ["x"], np.arange(4.0)[:, None], np.array([0.125, 0, 0, 1.0])),
        "ink": Strokes("", [[np.array([[0.0, 0.0], [1.0, 1.0]])]], ["ink"]),
    }
    shown = {"title": "", "caption": "", "rows": [], "figures": figures_json([Figure("", list(panels.values()))])}
    page.route("**/studio/answer", lambda route: route.fulfill(json=shown))
    page.goto(f"{address}/#jobs?model=opinions")
    expect(page.locator(".panel")).to_have_count(len(panels))
    for summary in page.locator(".panel summary").all():
        summary.click()
    for panel, alternative in zip(page.locator(".panel").all(), panels, strict=True):
        text = panel.get_by_role("cell", name=alternative, exact=True)
        expect(text.or_(panel.get_by_role("img", name=alternative, exact=True)).first).to_be_attached()
    assert violations(page) == []


def test_the_page_asks_for_a_key_and_sends_it(browser: Any, runs: Path, tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys.json", "alice")
    settings = ServerSettings(api_keys=tmp_path / "keys.json", allowed_hosts=hosts_of("127.0.0.1"))
    with listening(create_studio_app(runs, settings)) as url, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(f"{url}/#translate?model=transformer&text=the+cat+sleeps")
        page.get_by_label("Key").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("the API key is not valid").wait_for()
        assert violations(page) == []
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Continue").click()
        page.wait_for_selector(".words.target .word")
        page.reload()
        page.wait_for_selector(".words.target .word")  # kept while the tab is open
        assert context.new_page().goto(url) and context.storage_state()["origins"] == []  # and nowhere else


def test_dark_colours_follow_the_system_and_the_switch(page: Any, address: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/#translate?model=transformer&text=the+zzyzx+sleeps")
    page.wait_for_selector(".words.target .word")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(21, 24, 29)"
    assert violations(page) == []
    page.get_by_role("button", name="Switch to light colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    page.wait_for_selector(".words.target .word")
    assert page.evaluate(background) == "rgb(255, 255, 255)"  # the choice is kept


def test_a_saved_picture_scrolls_on_a_phone_and_its_words_keep_their_size(browser: Any, tmp_path: Path) -> None:
    words = ENGLISH.split()
    nodes = [Branch(at - 1, word, -0.1 * at, 2) for at, word in enumerate(words)]
    picture = BeamPicture(ENGLISH, nodes, [(ENGLISH, {"log P": -1.0})], "it won")
    picture.save(tmp_path / "beam.html")
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto((tmp_path / "beam.html").as_uri())
        tree = page.get_by_role("region", name=picture.heading)
        frame = page.locator(".frame", has=tree)
        expect(frame).to_have_attribute("data-more", re.compile("right"))
        tree.focus()
        page.keyboard.press("ArrowRight")
        expect(frame).to_have_attribute("data-more", "left right")
        assert tree.locator("svg").bounding_box()["width"] > 2 * 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert violations(page) == []


@pytest.mark.slow
def test_nothing_is_wider_than_a_phone(page: Any, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for view in ("translate", "inside", "search", "compare", "train", "learn", "lab", "jobs"):
        page.goto(f"{address}/#{view}")
        page.wait_for_selector("main .card, main .plain, main .lesson")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        tabs = page.locator(".tabs a").evaluate_all("all => all.map(tab => tab.getBoundingClientRect().right)")
        assert len(tabs) == 8 and max(tabs) <= 390  # none is hidden
