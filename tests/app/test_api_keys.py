"""The keys of the API: which are good, which are accepted, and how they are rotated."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from app.api.keys import LOOK_SECONDS, Keys
from app.api_settings import AuthSettings
from app.errors import SettingsError
from app.settings import Settings

OLD, NEW, THIRD = "old-key-0123456789", "new-key-0123456789", "third-key-0123456789"


class Clock:
    """A clock that goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def keys_in(file: Path, *keys: str, clock: Clock | None = None) -> Keys:
    put(file, *keys)
    return Keys(AuthSettings(keys_file=file), clock or Clock())


def put(file: Path, *lines: str) -> None:
    """Put a new file in the place of the old one, as rotation should."""
    beside = file.with_suffix(".new")
    beside.write_text("\n".join(lines) + "\n")
    beside.replace(file)


def accepted(keys: Keys) -> list[str]:
    return [key for key in (OLD, NEW, THIRD) if keys.accepts(key.encode())]


def problem_of(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ=environ)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("written", [f"{OLD},{NEW}", f'["{OLD}", "{NEW}"]', f" {OLD} , {NEW} "])
def test_several_keys_come_in_one_variable(written: str) -> None:
    settings = Settings.load(environ={"LIVETREE_AUTH__KEYS": written})

    assert accepted(Keys(settings.auth)) == [OLD, NEW]


def test_keys_of_the_settings_and_of_the_file_hold_together(tmp_path: Path) -> None:
    put(tmp_path / "keys", "# of the team that asks", "", NEW, f"  {THIRD}  ")

    keys = Keys(AuthSettings.model_validate({"keys": [OLD], "keys_file": tmp_path / "keys"}))

    assert accepted(keys) == [OLD, NEW, THIRD]
    assert len(keys) == 3


@pytest.mark.parametrize(
    "wrong", ["", " ", OLD[:-1], f"{OLD}x", OLD.upper(), "x" * 5000, "\xe9" * 18, f"{OLD}\x00"]
)
def test_nothing_but_a_key_is_a_key(wrong: str) -> None:
    keys = Keys(AuthSettings.model_validate({"keys": [OLD, NEW]}))

    assert not keys.accepts(wrong.encode("latin-1"))


def test_every_key_is_compared_in_constant_time_whatever_was_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = Keys(AuthSettings.model_validate({"keys": [OLD, NEW, THIRD]}))
    compared: list[tuple[int, int]] = []

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", noted)

    for offered in (OLD, THIRD, "x", "x" * 3000):
        compared.clear()
        keys.accepts(offered.encode())
        assert compared == [(32, 32)] * 3


def test_a_changed_file_is_taken_up_without_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    keys = keys_in(tmp_path / "keys", OLD, clock=clock)

    put(tmp_path / "keys", OLD, NEW)
    before = accepted(keys)
    clock.now += LOOK_SECONDS
    both = accepted(keys)
    put(tmp_path / "keys", NEW)
    clock.now += LOOK_SECONDS

    assert (before, both, accepted(keys)) == ([OLD], [OLD, NEW], [NEW])


def test_a_file_behind_a_link_is_taken_up_when_the_link_changes(tmp_path: Path) -> None:
    """Kubernetes swaps a link when a Secret changes."""
    for name, key in (("one", OLD), ("two", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(key)
    link, clock = tmp_path / "current", Clock()
    link.symlink_to(tmp_path / "one")
    keys = Keys(AuthSettings(keys_file=link / "keys"), clock)

    link.unlink()
    link.symlink_to(tmp_path / "two")
    clock.now += LOOK_SECONDS

    assert accepted(keys) == [NEW]


def test_the_file_is_looked_at_once_a_second_and_read_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    keys = keys_in(tmp_path / "keys", OLD, clock=clock)
    looks: list[str] = []
    stat, read_text = Path.stat, Path.read_text
    monkeypatch.setattr(Path, "stat", lambda *a, **k: looks.append("stat") or stat(*a, **k))
    monkeypatch.setattr(
        Path, "read_text", lambda *a, **k: looks.append("read") or read_text(*a, **k)
    )

    for _ in range(128):
        clock.now += LOOK_SECONDS / 64
        assert keys.accepts(OLD.encode())

    assert looks == ["stat"] * 2


@pytest.mark.parametrize("spoilt", ["", "short", f"{NEW}\n{NEW}", None])
def test_a_file_that_is_spoilt_or_gone_leaves_the_keys_before_in_force_until_it_is_mended(
    tmp_path: Path, spoilt: str | None
) -> None:
    clock = Clock()
    keys = keys_in(tmp_path / "keys", OLD, clock=clock)

    if spoilt is None:
        (tmp_path / "keys").unlink()
    else:
        put(tmp_path / "keys", spoilt)
    clock.now += LOOK_SECONDS
    meanwhile = accepted(keys)
    put(tmp_path / "keys", NEW)
    clock.now += LOOK_SECONDS

    assert (meanwhile, accepted(keys)) == ([OLD], [NEW])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("short-hush", "expected keys of 16 to 512 characters; key 1 of 1 has 10"),
        (f"{OLD},short-hush", "key 2 of 2 has 10"),
        (f"{OLD},{NEW},{OLD}", "expected every key once; keys 1 and 3 of 3 are the same"),
        (f"{OLD},", "expected keys that are not empty; key 2 of 2 is"),
        ('[""]', "expected keys that are not empty; key 1 of 1 is"),
        (f'["{OLD} {NEW}"]', "without blanks or commas; key 1 of 1 has others"),
        (f'["{OLD}', "expected a JSON list, or keys with commas between"),
        ('["kéy-with-an-accent"]', "expected keys of ASCII letters"),
        ("[1234567890123456]", "expected a valid string"),
    ],
)
def test_a_key_that_is_no_good_refuses_to_start_and_is_not_shown(written: str, said: str) -> None:
    problem = problem_of({"LIVETREE_AUTH__KEYS": written})

    assert "(LIVETREE_AUTH__KEYS" in problem
    assert said in problem
    assert not any(key in problem for key in (OLD, NEW, "short-hush", "accent", "12345"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "expected a readable file (No such file or directory)"),
        (b"", "expected at least one key in it, one a line"),
        (b"# nobody\n\n", "expected at least one key in it, one a line"),
        (b"short-hush\n", "expected keys of 16 to 512 characters; key 1 of 1 has 10"),
        (f"{NEW}\n{NEW}\n".encode(), "expected every key once; keys 1 and 2 of 2 are the same"),
        (f"{OLD}\n".encode(), "expected other keys than those in auth.keys"),
        (b"\xff\xfe\n", "expected text in UTF-8, one key a line"),
    ],
)
def test_a_file_that_is_no_good_refuses_to_start(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingsError) as caught:
        Keys(AuthSettings.model_validate({"keys": [OLD], "keys_file": file}))

    assert f"auth.keys_file (LIVETREE_AUTH__KEYS_FILE) is '{file}'; {said}" in str(caught.value)
    assert "hush" not in str(caught.value)
