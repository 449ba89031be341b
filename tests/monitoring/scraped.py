"""A service under traffic of every kind, a replica of it, and a Prometheus that scrapes both."""

from __future__ import annotations

import json
import math
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml

from streams import open_stream
from tests.brokers import Broker
from tests.faults.served import Served, wait
from tests.port import free_port

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "helm/livetree/prometheus/alerts.yaml"
KEY = "a-key-for-the-scraped-service"
WATCHED_SECONDS = 12
COLD_SECONDS = 600.0  # kernels may have to be compiled, on a busy machine
ROUND_SECONDS = 0.1
EVENTS_A_ROUND = 200
ODD = (
    b'{"salary": ',  # to the dead letters
    b'{"salary": 1e999, "label": "A"}',  # an infinite value, which counts as missing
)

Series = list[tuple[dict[str, str], list[float]]]


class Scraped:
    """The service, its replica, its traffic and its Prometheus; ends with the block."""

    def __init__(self, broker: Broker, prometheus: str, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self.topic = broker.topic()
        broker.create_topic(f"{self.topic}.snapshots")
        self.service = Served(self._settings(), folder / "livetree.yaml")
        self.replica = Served(self._settings() | {"role": "api"}, folder / "replica.yaml")
        self.port, self.replica_port = (
            int(each.wait_for("listening")["port"]) for each in (self.service, self.replica)
        )
        self._stop = threading.Event()
        self._traffic = threading.Thread(target=self._send, daemon=True)
        self.config = self._configuration()
        self.url = f"http://127.0.0.1:{free_port()}"
        with (folder / "prometheus.log").open("wb") as log:
            self._prometheus = subprocess.Popen(
                [
                    prometheus,
                    f"--config.file={self.config}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )

    def _settings(self) -> dict[str, Any]:
        return {
            "name": "scraped",
            "kafka": {
                "bootstrap_servers": self._broker.bootstrap_servers,
                "topic": self.topic,
                "fetch_wait_ms": 10,
            },
            "schema": {"infer_from": 100},
            "tree": {"n_min": 50, "audit_fraction": 1.0},
            "publish": {"every_seconds": 0.2},
            "snapshots": {"publish": True},
            "checkpoint": {"folder": str(self._folder / "checkpoints"), "every_seconds": 1},
            "auth": {"keys": KEY},
        }

    def _configuration(self) -> Path:
        path = self._folder / "prometheus.yml"
        target = {"targets": [f"127.0.0.1:{port}" for port in (self.port, self.replica_port)]}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "livetree", "static_configs": [target]}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def _send(self) -> None:
        """Send good and odd events, and requests of which some must fail."""
        stream = open_stream("agrawal", seed=5)
        while not self._stop.wait(ROUND_SECONDS):
            events = stream.events(EVENTS_A_ROUND)
            self._broker.send(self.topic, *(json.dumps(event).encode() for event in events), *ODD)
            row = {name: value for name, value in events[0].items() if name != "label"}
            self.ask("/predict", {"features": row})
            self.ask("/predict", {"features": {"salary": "much"}})
            self.ask("/tree?depth=1")
            self.ask("/nowhere")
            self.ask("/model", key=None)

    def ask(self, path: str, body: object = None, key: str | None = KEY) -> tuple[int, bytes]:
        """Return status and body of a route of the service."""
        headers = {"content-type": "application/json"}
        headers |= {"x-api-key": key} if key else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read()

    def __enter__(self) -> Self:
        self._traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._traffic.join()
        self._prometheus.terminate()
        self._prometheus.wait()
        self.replica.kill()
        self.service.kill()

    def wait_until_watched(self) -> None:
        """Wait until Prometheus has seen the model learn and answer for some seconds."""
        learned = f"min_over_time(livetree_tree_depth[{WATCHED_SECONDS}s]) > 0"
        often = f"count_over_time(livetree_tree_depth[{WATCHED_SECONDS}s]) >= {WATCHED_SECONDS - 2}"
        followed = f"delta(livetree_snapshots_received_total[{WATCHED_SECONDS}s]) > 1"
        log = self._folder / "prometheus.log"
        for each in (self.service, self.replica):
            each.wait(lambda each=each: each.get("/readyz")[0] == 200, COLD_SECONDS)
        seen = f"({learned}) and ({often}) and on () ({followed})"
        wait(lambda: self._answers(seen), log.read_text)

    def _answers(self, query: str) -> bool:
        try:
            return bool(self.api("query", query=query)["result"])
        except urllib.error.URLError:
            return False  # Prometheus is not there yet

    def api(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of Prometheus; a refused query fails with its reason."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as exc:
            with exc:
                raise AssertionError(f"{parameters}: {exc.read().decode()}") from exc

    def values(self, query: str) -> Series:
        """Return the series of a query over the time that was watched, without NaN."""
        now = float(self.api("query", query="time()")["result"][1])
        data = self.api(
            "query_range", query=query, start=str(now - WATCHED_SECONDS), end=str(now), step="1"
        )
        return [
            (found["metric"], [v for _, text in found["values"] if math.isfinite(v := float(text))])
            for found in data["result"]
        ]
