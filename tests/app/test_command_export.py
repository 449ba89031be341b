"""livetree export: the same bytes from a service and a checkpoint; refusals with the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api import create_app
from app.checkpoint import Checkpoint, CheckpointFolder
from app.cli import app
from learner import Encoder, StreamingTree
from streams import open_stream
from tests.app.answering_server import serving
from tests.app.fake_service import FakeService

ROOT = Path(__file__).parents[2]


def livetree(*arguments: str) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def grown(**params: Any) -> StreamingTree:
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=200.0, **params)
    tree.learn(*stream.take(20_000))
    return tree


@pytest.mark.parametrize("form", ["sql", "python", "onnx", "json"])
def test_a_service_and_its_checkpoint_give_the_same_bytes(form: str, tmp_path: Path) -> None:
    tree, folder = grown(), tmp_path / "checkpoints"
    write_checkpoint(folder, tree)
    from_service, from_checkpoint = tmp_path / "a", tmp_path / "b"

    with serving(tree.snapshot()) as url:
        first = livetree("export", "--format", form, "--out", str(from_service), "--url", url)
    second = livetree(
        "export", "--format", form, "--out", str(from_checkpoint), "--checkpoint", str(folder)
    )

    assert first.exit_code == second.exit_code == 0, first.output + second.output
    assert from_service.read_bytes() == from_checkpoint.read_bytes() != b""
    assert "vfdt-20000" in first.output
    assert "nodes" in first.output


def write_checkpoint(folder: Path, tree: StreamingTree) -> None:
    kept = CheckpointFolder(folder)
    kept.acquire()
    made = Checkpoint(
        model=tree.to_bytes(), offsets={0: 20_000}, topic="t", identity=None, events=20_000,
        created_at="2026-01-01T00:00:00Z",
    )  # fmt: skip
    kept.save(made)
    kept.release()


def test_standard_output_holds_nothing_else(tmp_path: Path) -> None:
    with serving(grown().snapshot()) as url:
        result = livetree("export", "--format", "sql", "--out", "-", "--url", url)

    assert result.stdout.startswith("-- livetree vfdt-20000\n")
    assert result.stdout.endswith("\nEND\n")


def test_the_document_of_the_route_is_what_is_written(tmp_path: Path) -> None:
    snapshot, out = grown().snapshot(), tmp_path / "tree.json"
    with serving(snapshot) as url:
        livetree("export", "--format", "json", "--out", str(out), "--url", url)
    service: Any = FakeService()
    service.publish(snapshot)

    answer = TestClient(create_app(service)).get("/export")

    assert answer.headers["livetree-snapshot"] == snapshot.id
    assert json.loads(out.read_text(encoding="utf-8")) == answer.json()
    assert answer.json()["format"] == "livetree"
    assert answer.json()["schema"] == snapshot.schema.to_dict()


def test_naive_bayes_ends_with_2_and_the_way_out(tmp_path: Path) -> None:
    out = tmp_path / "tree.sql"
    with serving(grown(leaf_predictor="nb").snapshot()) as url:
        arguments = ["export", "--format", "sql", "--out", str(out), "--url", url]
        refused = livetree(*arguments)
        assert not out.exists()
        taken = livetree(*arguments, "--by-votes")

    assert refused.exit_code == 2
    assert "leaves answer by naive Bayes" in refused.output
    assert "--by-votes" in refused.output
    assert taken.exit_code == 0
    assert out.exists()


def test_a_file_that_cannot_be_written_is_a_wrong_option(tmp_path: Path) -> None:
    with serving(grown().snapshot()) as url:
        result = livetree("export", "--format", "sql", "--out", str(tmp_path), "--url", url)

    assert result.exit_code == 2
    assert "expected a file that can be written" in result.output


def test_without_the_extra_onnx_ends_with_2_and_one_line(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['onnx'] = None;"
        "sys.argv = ['livetree', 'export', '--format', 'onnx', '--out', sys.argv[1],"
        " '--url', sys.argv[2]]; from app.cli import main; main()"
    )
    with serving(grown().snapshot()) as url:
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "tree.onnx"), url],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    assert done.returncode == 2
    assert "pip install 'livetree[onnx]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("answer", ['{"format": "livetree", "version": 2}', "[]"])
def test_what_is_no_tree_of_ours_is_refused(answer: str) -> None:
    from app.errors import NotExportable
    from app.export.document import read_document

    with pytest.raises(NotExportable, match=r"expected (1: use|a tree)"):
        read_document(json.loads(answer))
