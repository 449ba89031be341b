"""/docs without the internet, and no page of ours that needs anything from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.api.docs import PATHS
from tests.app.fake_service import FakeService
from tests.app.listening import listening
from tests.app.test_api_predict import client_of
from tests.requirement import required_program

SWAGGER = Path(__file__).parents[2] / "app" / "swagger"
PAGES = ("/docs", "/tree?format=html", "/tree?format=svg")
# What a browser would fetch: addresses in attributes, in style sheets, in imports.
FETCHED = re.compile(
    r"""(?:\b(?:src|href|srcset|action|data|poster|cite)\s*=\s*["']?|url\(\s*["']?|@import\s+["'])"""
    r"""([^"'\s)>]+)"""
)
ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Return a client."""
    return client_of(FakeService())


def test_addresses_of_other_hosts_would_be_found() -> None:
    for text in ('<script src="https://cdn.example/x.js">', "url(//fonts.example/a.woff)"):
        assert [each for each in FETCHED.findall(text) if ELSEWHERE.match(each)]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_refers_to_another_host(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    fetched = FETCHED.findall(answer.text)
    assert not [each for each in fetched if ELSEWHERE.match(each)]
    assert re.match("default-src '(self|none)'", answer.headers["content-security-policy"])
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_style_sheet_of_the_page_fetches_nothing() -> None:
    fetched = FETCHED.findall((SWAGGER / "swagger-ui.css").read_text(encoding="utf-8"))

    assert fetched
    assert not [each for each in fetched if not each.startswith("data:")]


def test_the_page_has_no_script_and_no_style_in_itself(client: TestClient) -> None:
    text = client.get("/docs").text

    assert not re.search(r"<style|\sstyle=|\son\w+=", text)
    assert all("src=" in each for each in re.findall(r"<script[^>]*>", text))


def test_all_parts_of_the_page_are_served_packed_and_once(client: TestClient) -> None:
    for path in PATHS:
        plain = client.get(path, headers={"accept-encoding": "identity"})
        packed = client.get(path)
        again = client.get(path, headers={"if-none-match": plain.headers["etag"]})

        assert plain.status_code == 200
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content
        assert again.status_code == 304
        assert plain.headers["content-security-policy"].startswith("default-src 'self';")
    assert client.get("/docs/LICENSE").status_code == 404
    assert client.get("/docs/../app/errors.py").status_code == 404


def test_the_licences_are_beside_what_they_are_for() -> None:
    assert "Apache License" in (SWAGGER / "LICENSE").read_text(encoding="utf-8")
    assert "SmartBear" in (SWAGGER / "NOTICE").read_text(encoding="utf-8")


def test_the_page_works_in_a_browser_that_reaches_nobody_else() -> None:
    chromium = required_program("chromium", "REQUIRE_CHROMIUM", "chromium")
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    troubles: list[str] = []
    with listening(FakeService()) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"http://{address}/docs")
        page.get_by_text("Predict one row or many").first.click()
        page.get_by_role("button", name="Execute").click()
        page.locator(".live-responses-table").get_by_text('"snapshot": "snap-1"').wait_for()
        browser.close()
        local = (f"http://{address}/", "data:")

    assert not troubles
    assert {each.partition(address)[2].partition("?")[0] for each in asked} >= {
        "/docs", "/docs/start.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js",
        "/openapi.json", "/predict",
    }  # fmt: skip
    assert not [each for each in asked if not each.startswith(local)]
