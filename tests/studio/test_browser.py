"""The page in a real browser: every view, keyboard, both themes, axe's accessibility rules, no request elsewhere."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.serving.keys import new_key
from harken.serving.limits import hosts_of
from harken.serving.settings import ServerSettings
from harken.studio.app import create_studio_app
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


def test_two_models_side_by_side(page: Any, address: str) -> None:
    page.goto(f"{address}/#compare?modela=attention&modelb=transformer&text=the+cat+sees+the+dog")
    expect(page.locator(".words.target")).to_have_count(2)
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


@pytest.mark.slow
def test_nothing_is_wider_than_a_phone(page: Any, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for view in ("translate", "inside", "search", "compare", "train", "lab", "jobs"):
        page.goto(f"{address}/#{view}")
        page.wait_for_selector("main .card, main .plain")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
