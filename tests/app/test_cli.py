"""The command line."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from app.cli import app
from app.commands.assignments import STREAM_NAMES, parse_assignments, parse_value
from app.commands.evaluate import parameters_of, plan
from learner import VARIANTS, TreeParams
from streams import STREAMS
from tests.brokers import Broker

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "demo",
    "serve",
    "produce",
    "evaluate",
    "replay",
    "tree",
    "explain",
    "export",
    "variants",
)


def livetree(*arguments: str, **environment: str) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"} | environment)


@pytest.fixture(autouse=True)
def away_from_any_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where no .env can change the settings."""
    monkeypatch.chdir(tmp_path)


def test_the_help_names_every_command_and_the_exit_codes() -> None:
    result = livetree("--help")

    assert result.exit_code == 0
    for command in COMMANDS:
        assert command in result.output
    assert "Exit codes" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_and_every_option_a_sentence(command: str) -> None:
    result = livetree(command, "--help")

    assert result.exit_code == 0
    assert "Examples" in result.output
    assert f"livetree {command}" in result.output
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    assert all(getattr(parameter, "help", None) for parameter in parameters)


@pytest.mark.parametrize("command", ["list", "show", "redrive"])
def test_every_command_for_dead_letters_has_examples_and_every_option_a_sentence(
    command: str,
) -> None:
    result = livetree("dlq", command, "--help")

    assert result.exit_code == 0
    assert f"livetree dlq {command}" in result.output
    assert "Exit codes" in result.output
    group = typer.main.get_command(app).commands["dlq"]  # type: ignore[attr-defined]
    assert all(getattr(parameter, "help", None) for parameter in group.commands[command].params)


def test_the_help_is_not_broken_into_short_lines() -> None:
    result = livetree("serve", "--help", COLUMNS="300")

    assert "Settings come from the options, the environment, a .env file" in result.output


def test_the_help_names_every_stream() -> None:
    assert ", ".join(STREAMS) == STREAM_NAMES


def test_the_version_is_printed() -> None:
    result = livetree("--version")

    assert result.exit_code == 0
    assert result.output.startswith("livetree ")


def test_nothing_asked_shows_the_help() -> None:
    assert "evaluate" in livetree().output


def test_help_does_not_wait_for_the_compiler() -> None:
    script = "import app.cli, sys; sys.exit('numba' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)

    assert result.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["evaluate"],
        ["evaluate", "--stream", "sea", "--file", "x.csv"],
        ["evaluate", "--stream", "sea", "--set", "n_min"],
        ["evaluate", "--stream", "sea", "--set", "other.n_min=3"],
        ["evaluate", "--stream", "sea", "--events", "0"],
        ["evaluate", "--stream", "sea", "--run", "a:n_min=3", "--run", "a:n_min=4"],
        ["evaluate", "--stream", "sea", "--run", ":n_min=3"],
        ["evaluate", "--stream", "sea", "--picture", "no/such/folder/p.svg"],
        ["variants", "nope"],
        ["produce"],
        ["produce", "--file", "x.csv", "--option", "a=1"],
        ["tree", "--url", "ftp://x"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    result = livetree(*arguments)

    assert result.exit_code == 2
    assert result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "--stream", "nope"], "error: stream is 'nope'; expected one of sea"),
        (["evaluate", "--stream", "sea", "--option", "foo=1"], "error: stream 'sea' has no option"),
        (["evaluate", "--stream", "sea", "--variants", "zzz"], "error: zzz: variant is 'zzz'"),
        (["evaluate", "--file", "none.csv"], "error: file 'none.csv' does not exist"),
        (["produce", "--stream", "nope"], "error: stream is 'nope'"),
        (["demo", "--stream", "nope"], "error: stream is 'nope'"),
        (["serve", "--config", "none.yaml"], "error: "),
    ],
)
def test_wrong_input_ends_with_2_and_one_line(arguments: list[str], words: str) -> None:
    result = livetree(*arguments)

    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_all_wrong_parameters_are_listed() -> None:
    result = livetree("evaluate", "--stream", "sea", "--set", "n_min=-1", "--set", "foo=1")

    assert result.exit_code == 2
    assert "error: vfdt: parameter 'n_min' is -1" in result.stderr
    assert "error: vfdt: parameter 'foo' is unknown" in result.stderr


def test_all_wrong_settings_are_listed() -> None:
    result = livetree("serve", LIVETREE_HTTP__PORT="abc", LIVETREE_KAFKA__POLL_BATCH="0")

    assert result.exit_code == 2
    assert "LIVETREE_HTTP__PORT" in result.stderr
    assert "LIVETREE_KAFKA__POLL_BATCH" in result.stderr


def test_evaluate_prints_json_for_programs() -> None:
    result = livetree(
        "evaluate", "--stream", "sea", "--events", "3000", "--format", "json", "--no-delay",
        "--run", "a:n_min=100,tau=0.1", "--run", "b:variant=vfdt,leaf_predictor=nba",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)
    assert (first["name"], second["name"]) == ("a", "b")
    assert first["params"] == {"n_min": 100, "tau": 0.1}
    assert first["events"] == 3000
    assert len(first["tree_hash"]) == 64
    assert first["delay_kind"] is None


def test_evaluate_runs_every_configuration_as_shards_too() -> None:
    result = livetree(
        "evaluate", "--stream", "sea", "--events", "2000", "--format", "json", "--no-delay",
        "--variants", "vfdt,vht", "--shards", "2,4",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    named = {run["name"]: run["shards"] for run in json.loads(result.stdout)}
    assert named == {"vfdt": 1, "vht": 1, "vfdt x2": 2, "vht x2": 2, "vfdt x4": 4, "vht x4": 4}


@pytest.mark.parametrize("shards", ["1", "two", "2,257"])
def test_evaluate_refuses_numbers_that_are_none_of_shards(shards: str) -> None:
    result = livetree("evaluate", "--stream", "sea", "--events", "10", "--shards", shards)

    assert result.exit_code == 2
    assert "expected 2 to 256" in result.stderr


def test_evaluate_prints_a_table_for_people(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "1,a\n2,b\n" * 50)

    result = livetree("evaluate", "--file", str(path), "--events", "60")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "data.csv, 60 events"
    assert "accuracy" in result.stdout


def test_evaluate_draws_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "sea.svg"

    result = livetree(
        "evaluate", "--stream", "sea", "--events", "3000", "--variants", "vfdt,osm",
        "--picture", str(path),
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    drawing = path.read_text(encoding="utf-8")
    assert drawing.startswith("<svg ")
    assert "sea, 3,000 events" in drawing
    assert drawing.count(">osm<") == 2


def test_all_variants_can_be_named_at_once() -> None:
    assert [run.variant for run in plan("all", {}, [])] == list(VARIANTS)


def test_variants_are_listed_with_paper_year_choice_and_cost() -> None:
    result = livetree("variants")

    assert result.exit_code == 0
    for variant in VARIANTS.values():
        assert variant.name in result.stdout
        assert str(variant.year) in result.stdout
        assert variant.paper.split()[0] in result.stdout
        assert variant.choose.split()[0] in result.stdout
        assert variant.cost.split()[0] in result.stdout


@pytest.mark.parametrize("name", VARIANTS)
def test_one_variant_shows_what_it_sets_differently_from_vfdt(name: str) -> None:
    result = livetree("variants", name)

    assert result.exit_code == 0
    assert VARIANTS[name].summary in result.stdout
    shown = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    plain, own = TreeParams(), VARIANTS[name].params_from({})
    for field in dataclasses.fields(TreeParams):
        differs = getattr(plain, field.name) != getattr(own, field.name)
        assert (field.name in shown) == differs, field.name


def test_variants_are_json_for_programs() -> None:
    found = json.loads(livetree("variants", "--format", "json").stdout)
    one = json.loads(livetree("variants", "imac", "--format", "json").stdout)

    assert [variant["name"] for variant in found] == list(VARIANTS)
    assert one in found
    assert one["differs"] == {"timing": "imac"}
    assert one["params"]["mu"] == 200.0


def test_the_same_seed_grows_the_same_tree() -> None:
    arguments = [
        "evaluate", "--stream", "agrawal", "--events", "2000", "--format", "json", "--no-delay",
    ]  # fmt: skip

    def grown(*more: str) -> str:
        return str(json.loads(livetree(*arguments, *more).stdout)[0]["tree_hash"])

    assert grown("--batch", "100") == grown("--batch", "1999")
    assert grown("--seed", "2") != grown()


def test_parameters_of_one_variant_win_over_those_of_all() -> None:
    assigned = parse_assignments(["n_min=100", "vfdt.n_min=50", "efdt.tau=0"])

    assert parameters_of("vfdt", assigned) == {"n_min": 50}
    assert parameters_of("efdt", assigned) == {"n_min": 100, "tau": 0}


def test_runs_are_planned_in_their_order() -> None:
    runs = plan("vfdt", {"tau": 0}, ["fast:n_min=10"])

    assert [(run.name, run.variant) for run in runs] == [("vfdt", "vfdt"), ("fast", "vfdt")]
    assert runs[1].params == {"tau": 0, "n_min": 10}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.5", 0.5), ("1e-7", 1e-7), ("true", True), ("nba", "nba"), ("", "")],
)
def test_values_are_read_as_json_or_taken_as_text(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_produce_reports_what_was_delivered(broker: Broker) -> None:
    topic = broker.topic()

    result = livetree(
        "produce", "--stream", "sea", "--events", "1500", "--topic", topic,
        "--bootstrap-servers", broker.bootstrap_servers,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert f"1,500 events delivered to topic '{topic}'" in result.stdout
    assert "0 failed" in result.stdout


def test_a_service_that_does_not_run_is_an_error_in_words() -> None:
    result = livetree("tree", "--url", "http://127.0.0.1:1")

    assert result.exit_code == 3
    assert "error: no service answers at http://127.0.0.1:1" in result.stderr


def test_a_folder_without_checkpoints_is_an_error_in_words(tmp_path: Path) -> None:
    result = livetree("tree", "--checkpoint", str(tmp_path))

    assert result.exit_code == 4
    assert "holds no checkpoint" in result.stderr


def test_a_taken_port_ends_the_demo_with_2() -> None:
    from app.api.server import bind

    with bind("127.0.0.1", 0) as taken:
        result = livetree("demo", "--port", str(taken.getsockname()[1]))

    assert result.exit_code == 2
    assert "address already in use; choose another with --port" in result.stderr


def test_the_key_is_shown_to_the_service_and_to_nobody_it_sends_us_on_to() -> None:
    seen: list[tuple[str, str | None]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path.partition("?")[0], self.headers["authorization"]))
            self.send_response(200 if self.path == "/elsewhere" else 302)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"

    result = livetree("tree", "--url", url, LIVETREE_API_KEY="a-key-of-this-test-1")
    server.shutdown()
    server.server_close()

    assert result.exit_code == 0
    assert seen == [("/tree", "Bearer a-key-of-this-test-1"), ("/elsewhere", None)]


@pytest.mark.parametrize("option", ["--ca-file", "--certificate-file"])
def test_a_certificate_that_is_none_is_a_wrong_option(option: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")

    for name in ("text", "nowhere"):
        result = livetree("tree", "--url", "https://127.0.0.1:1", option, str(tmp_path / name))
        assert result.exit_code == 2
        assert option in result.output
        assert "expected" in result.output


def test_serving_avro_without_its_extra_ends_with_2_and_one_line() -> None:
    script = (
        "import sys; sys.modules['fastavro'] = None; sys.argv = ['livetree', 'serve'];"
        "from app.cli import main; main()"
    )
    variables = {
        "LIVETREE_EVENT__FORMAT": "avro",
        "LIVETREE_EVENT__REGISTRY__URL": "http://127.0.0.1:1",
    }

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: event.format (LIVETREE_EVENT__FORMAT) is 'avro', which needs an extra; install "
        "it: pip install 'livetree[avro]'"
    ]
