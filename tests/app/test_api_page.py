"""The page and its files: complete, from here alone, and nothing of it inline."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.api.page import page_files, page_paths
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of

STATIC = Path(__file__).parents[2] / "app" / "static"
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OWN = [path for path in sorted(STATIC.glob("*")) if path.is_file()]


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Return a client."""
    return client_of(FakeService())


def test_a_browser_gets_the_page_and_others_the_list_of_routes(client: TestClient) -> None:
    page = client.get("/", headers=HTML)

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>livetree</title>" in page.text
    assert "routes" in client.get("/", headers={"accept": "*/*"}).json()


def test_the_policy_lets_nothing_in_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/static/page.js"):
        policy = client.get(path, headers=HTML).headers["content-security-policy"]

        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy


@pytest.mark.parametrize("path", sorted(page_paths()))
def test_every_file_is_served_as_what_it_is(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=HTML)

    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    expected = kinds.get(Path(path).suffix, "text/html" if path == "/" else "text/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(expected)
    again = client.get(path, headers={**HTML, "if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_files_are_packed_for_those_who_can_unpack(client: TestClient) -> None:
    plain = client.get("/static/page.css", headers={"accept-encoding": "identity"})

    assert "content-encoding" not in plain.headers
    file = page_files()["page.css"]
    assert gzip.decompress(file.packed) == plain.content
    packed = client.get("/static/page.css", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "path", ["/static/", "/static/nothing.js", "/static/../page.py", "/static/%2e%2e/page.py"]
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert_problem(client.get(path), 404, "path is '/")


def test_the_page_has_nothing_inline_and_asks_nobody_else() -> None:
    text = (STATIC / "index.html").read_text()

    assert not re.findall(r"<script(?![^>]*\bsrc=)", text)
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=", text)
    for path in OWN:
        addresses = set(re.findall(r"https?://[^\s\"')]+", path.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"(?:src|href)=\"(static/[^\"]+)\"", (STATIC / "index.html").read_text())
    assert named
    assert {f"/{name}" for name in named} <= page_paths()
    for path in STATIC.glob("*.js"):
        for module in re.findall(r"from \"\./([^\"]+)\"", path.read_text()):
            assert f"/static/{module}" in page_paths(), path.name


def test_every_id_that_a_script_asks_for_is_in_the_page() -> None:
    ids = re.findall(r"\bid=\"([^\"]+)\"", (STATIC / "index.html").read_text())
    assert len(ids) == len(set(ids))
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        asked = set(re.findall(r"byId\(\"([^\"]+)\"\)", text)) - {"legend-window_accuracy"}
        assert asked <= set(ids), path.name


def test_what_others_wrote_comes_with_its_licence() -> None:
    vendored = {path.name for path in (STATIC / "vendor").iterdir()}

    assert vendored == {
        "d3-tree.min.js",
        "d3.LICENSE",
        "uPlot.min.js",
        "uPlot.min.css",
        "uPlot.LICENSE",
    }
    for name in ("d3", "uPlot"):
        assert "Permission" in (STATIC / "vendor" / f"{name}.LICENSE").read_text()


def test_files_of_the_page_stay_short_enough_to_read() -> None:
    lengths = {path.name: len(path.read_bytes().splitlines()) for path in OWN}
    assert not {name: length for name, length in lengths.items() if length > 450}
