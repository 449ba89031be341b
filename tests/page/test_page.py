"""What the page shows, in a real browser, while a real learner learns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.page.conftest import KEY, MARKUP, PATIENCE_SECONDS

Look = Callable[..., Page]
# The ids in the strip of the whole tree, whatever is drawn of it above.
NODES = "() => JSON.parse(document.getElementById('icicle').dataset.ids)"
LEAF_GONE = "status of (404|503)"  # it split before it was asked, or the learner was busy


def shown(page: Page) -> Page:
    """Wait until the tree has at least one split."""
    expect(page.locator(".item").nth(2)).to_be_attached()
    return page


def number(page: Page, selector: str) -> int:
    """Return the number that stands somewhere, 0 for none."""
    return int(re.sub(r"\D", "", page.inner_text(selector)) or 0)


def until(page: Page, happened: Callable[[], bool]) -> None:
    """Wait; the browser's own way runs a text as a script, which the page's policy refuses."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        page.wait_for_timeout(50)


def test_the_tree_and_the_numbers_grow_while_they_are_watched(demo: str, look: Look) -> None:
    page = shown(look(demo))
    expect(page.locator("#connection")).to_have_text("live")
    nodes, events = number(page, "#tile-nodes"), number(page, "#tile-events")
    newest = max(page.evaluate(NODES))

    until(page, lambda: max(page.evaluate(NODES)) > newest)

    assert number(page, "#tile-nodes") > nodes
    assert number(page, "#tile-events") > events
    until(page, lambda: number(page, "#log tr:first-child td:nth-child(3)") > 0)
    logged = number(page, "#log-count")
    until(page, lambda: number(page, "#log-count") > logged)
    expect(page.locator("#log tr.fresh").first).to_be_visible()
    expect(page.locator("#chart-accuracy")).to_be_visible()
    expect(page.locator(".plot canvas")).to_have_count(4)
    expect(page.locator("#legend-window_accuracy")).to_contain_text("last 1,000")


def test_a_prediction_lights_its_path(demo: str, look: Look) -> None:
    page = shown(look(demo))
    with page.expect_response("**/predict?path=true") as caught:
        page.click("#example")
    answer = caught.value.json()
    way = [*(step["node"] for step in answer["path"]), answer["leaf"]]

    expect(page.locator("#answer-label")).to_have_text(answer["label"])
    expect(page.locator(".item.lit")).to_have_count(len(way))
    lit = page.locator(".item.lit").evaluate_all("all => all.map((one) => Number(one.dataset.id))")
    assert sorted(lit) == sorted(way)
    expect(page.locator("#answer .steps li")).to_have_count(len(answer["path"]))
    page.keyboard.press("Escape")
    expect(page.locator(".item.lit")).to_have_count(0)


def test_an_answer_says_what_would_change_it(demo: str, look: Look) -> None:
    page = shown(look(demo))
    with page.expect_response("**/explain") as caught:
        page.click("#example")
    found = caught.value.json()
    expect(page.locator("#answer .why")).to_contain_text(found["reason"] or "instead")

    sent = caught.value.request.post_data_json["features"]
    with page.expect_request("**/predict?path=true") as asked:
        page.get_by_role("button", name="Predict").click()

    assert sent
    assert asked.value.post_data_json["features"] == sent
    for change in (found["counterfactual"] or {"changes": []})["changes"]:
        expect(page.locator("#answer .why")).to_contain_text(change["feature"])


def test_a_wrong_value_is_told_in_the_words_of_the_service(demo: str, look: Look) -> None:
    page = shown(look(demo, complains="422"))
    page.get_by_label("salary", exact=True).fill("much")
    page.get_by_role("button", name="Predict").click()

    expect(page.locator("#answer")).to_have_text("feature 'salary' is 'much'; expected a number")


def test_the_search_finds_nodes_that_are_not_drawn(demo: str, look: Look) -> None:
    page = shown(look(demo))
    page.locator(".item").first.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".item")).to_have_count(1)
    hidden = page.evaluate(NODES)[-1]

    page.keyboard.press("/")
    page.keyboard.type(f"#{hidden}")
    expect(page.locator("#hits")).to_have_text("1")
    page.keyboard.press("Enter")

    expect(page.locator(f".item[data-id='{hidden}']")).to_have_class(re.compile(r"\bhit\b"))
    expect(page.locator("#hits")).to_have_text("1 of 1")
    page.fill("#search", "age")
    until(page, lambda: number(page, "#hits") > 0)
    page.fill("#search", "no such feature")
    expect(page.locator("#hits")).to_have_text("0")
    expect(page.locator("#hit-next")).to_be_disabled()


def test_the_tree_is_walked_by_keyboard(demo: str, look: Look) -> None:
    page = shown(look(demo))
    root = page.locator(".item").first
    root.focus()
    expect(root).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowLeft")
    expect(root).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".item")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("aria-expanded", "true")

    page.keyboard.press("ArrowRight")
    level = "() => Number(document.activeElement.getAttribute('aria-level'))"
    assert page.evaluate(level) == 2
    page.keyboard.press("ArrowDown")
    assert page.evaluate(level) >= 2
    page.keyboard.press("Enter")
    expect(page.locator(".item[aria-selected='true']")).to_be_focused()
    expect(page.locator("#node-name")).to_contain_text("#")
    page.keyboard.press("Home")
    expect(root).to_be_focused()
    assert page.locator(".item[tabindex='0']").count() == 1
    page.keyboard.press("End")
    expect(page.locator(".item").last).to_be_focused()


def test_the_strip_of_the_whole_tree_selects(demo: str, look: Look) -> None:
    page = shown(look(demo))
    page.locator("#icicle").click(position={"x": 5, "y": 3})

    expect(page.locator("#node-name")).to_have_text("#0, split")
    expect(page.locator(".item[data-id='0']")).to_have_attribute("aria-selected", "true")


def test_the_log_leads_to_the_node_and_says_why_it_split(demo: str, look: Look) -> None:
    page = shown(look(demo, complains=LEAF_GONE))
    page.locator("#log button").first.click()

    name = page.locator("#node-name")
    expect(name).to_have_text(re.compile(r"#\d+, (split|leaf)"))
    page.locator("#icicle").click(position={"x": 5, "y": 3})
    expect(name).to_have_text("#0, split")
    expect(page.locator("#node .why h3")).to_have_text("Why it split")
    expect(page.locator("#node .why")).to_contain_text("Runner-up")


def test_a_leaf_says_why_it_has_not_split_yet(demo: str, look: Look) -> None:
    page = shown(look(demo, complains=LEAF_GONE))

    def told() -> bool:
        page.click("#example")
        page.locator("#answer button.link").click()
        page.wait_for_timeout(500)
        return page.locator("#node .why h3", has_text="Why not yet").count() == 1

    until(page, told)
    assert len(page.inner_text("#node .why p")) > 20


def test_dark_is_what_the_system_says_until_the_button_says_otherwise(
    demo: str, look: Look
) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    page = shown(look(demo, color_scheme="dark"))
    dark = page.evaluate(ground)
    light = shown(look(demo, color_scheme="light")).evaluate(ground)
    assert dark != light

    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == light
    page.reload()
    shown(page)
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(demo: str, look: Look, scheme: str) -> None:
    page = shown(look(demo, color_scheme=scheme, complains=LEAF_GONE))
    page.click("#example")
    page.locator("#answer button.link").click()
    page.fill("#search", "age")

    found = Axe().run(page)

    assert found.violations_count == 0, found.generate_report()


def test_a_script_that_is_not_ours_does_not_run(demo: str, look: Look) -> None:
    page = shown(look(demo, complains="Content Security Policy"))
    page.evaluate(
        """() => {
          window.refused = [];
          document.addEventListener("securitypolicyviolation",
            (event) => window.refused.push(event.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          const image = document.createElement("img");
          image.src = "https://example.org/x.png";
          document.body.append(image);
        }"""
    )

    until(page, lambda: len(page.evaluate("() => window.refused")) >= 2)
    assert page.evaluate("() => window.ran") is None


def test_the_page_asks_where_the_stream_is_refused(demo: str, look: Look) -> None:
    page = look("about:blank", complains="ERR_FAILED")
    page.route("**/live", lambda route: route.abort())
    page.goto(demo)
    shown(page)
    expect(page.locator("#connection")).to_have_text("live, asking once a second")
    events = number(page, "#tile-events")

    until(page, lambda: number(page, "#tile-events") > events)


def test_with_keys_the_page_asks_for_one_and_keeps_it_in_its_tab(guarded: str, look: Look) -> None:
    page = look(guarded, complains="401")
    key = page.locator("#key")
    key.fill("not-the-key-of-this-service")
    key.press("Enter")
    expect(page.locator("#key-reason")).to_contain_text("the key is not one that is accepted")
    key.fill(KEY)
    key.press("Enter")

    shown(page)
    expect(page.locator("#connection")).to_have_text("live")
    page.reload()
    shown(page)
    expect(page.locator("#key-dialog")).to_be_hidden()
    assert page.evaluate("() => JSON.stringify({ ...localStorage })") == "{}"
    assert KEY not in page.url
    other = look(guarded, complains="401")
    expect(other.locator("#key-dialog")).to_be_visible()


def test_labels_that_look_like_markup_are_text(guarded: str, look: Look) -> None:
    page = look(guarded, complains="401")
    page.locator("#key").fill(KEY)
    page.locator("#key").press("Enter")
    shown(page)

    page.get_by_label("a<b>", exact=True).fill("99")
    page.get_by_role("button", name="Predict").click()

    expect(page.locator("#answer-label")).to_have_text(MARKUP)
    assert page.locator("img[src='x']").count() == 0
