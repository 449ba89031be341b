"""Short words for rendering the chart with the real helm."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/livetree"
HELM = Path(sys.executable).with_name("helm")
CASES = {path.stem: path for path in sorted(CHART.glob("ci/*.yaml"))} | {
    "defaults": CHART / "values.yaml",
    "prod": CHART / "values-prod.yaml",
}

Object = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm and return what became of it."""
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False)


@cache
def rendered(*options: str, values: Path | None = None) -> str:
    """Return the chart's objects as text; options as for `helm template`."""
    file = ("--values", str(values)) if values else ()
    done = helm("template", "live", str(CHART), "--namespace", "shop", *file, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(*options: str, values: Path | None = None) -> list[Object]:
    """Return the chart's objects."""
    return [found for found in yaml.safe_load_all(rendered(*options, values=values)) if found]


def refused(*options: str) -> str:
    """Return why helm refuses to render the chart."""
    done = helm("template", "live", str(CHART), *options)
    assert done.returncode != 0, f"not refused: {options}"
    return done.stderr


def only(found: list[Object], kind: str, name: str = "") -> Object:
    """Return the one object of a kind, with a name that ends so."""
    (one,) = [o for o in found if o["kind"] == kind and o["metadata"]["name"].endswith(name)]
    return one


def pods(found: list[Object]) -> list[Object]:
    """Return the specs of all pods, those of tests included."""
    specs = [o["spec"]["template"]["spec"] for o in found if "template" in o.get("spec", {})]
    return specs + [o["spec"] for o in found if o["kind"] == "Pod"]
