"""Settings: where they come from, what is refused, and how it is said."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.errors import SettingsError
from app.settings import Settings
from app.settings_file import setting_paths, variable_of
from app.tree_settings import TreeSettings
from learner import VARIANTS, TreeParams
from learner.params import BOUNDS, CHOICES


def problems_of(
    environ: dict[str, str] | None = None, config_file: Path | None = None, **overrides: Any
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(config_file, environ=environ or {}, **overrides)
    return caught.value.problems


def test_defaults_alone_are_enough() -> None:
    settings = Settings.load(environ={})

    assert settings.kafka.topic == "livetree-events"
    assert settings.dead_letter_topic() == "livetree-events.dlq"
    assert settings.tree.given() == {}
    assert settings.tree_params()["n_min"] == 200.0


def test_a_later_source_wins_over_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text("name: one\nkafka: {topic: one, group_id: one, start: latest}\n")
    environ = {"LIVETREE_KAFKA__TOPIC": "two", "LIVETREE_KAFKA__GROUP_ID": "two"}

    settings = Settings.load(file, environ=environ, kafka={"group_id": "three", "start": None})

    kafka = settings.kafka
    assert (settings.name, kafka.start, kafka.topic, kafka.group_id) == (
        "one",
        "latest",
        "two",
        "three",
    )


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text("name: from-file\n")

    settings = Settings.load(environ={"LIVETREE_CONFIG_FILE": str(file)})

    assert settings.name == "from-file"


def test_a_dotenv_file_is_read_with_the_processs_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVETREE_KAFKA__TOPIC", "from-environment")
    (tmp_path / ".env").write_text("LIVETREE_NAME=from-dotenv\nLIVETREE_KAFKA__TOPIC=no\nOTHER=1\n")

    settings = Settings.load()

    assert (settings.name, settings.kafka.topic) == ("from-dotenv", "from-environment")


def test_lists_and_objects_come_as_json_from_the_environment() -> None:
    environ = {
        "LIVETREE_SCHEMA__FEATURES": '[{"name": "age", "kind": "numeric"}]',
        "LIVETREE_SCHEMA__CLASSES": '["a", 1, false]',
        "LIVETREE_KAFKA__EXTRA": '{"client.rack": "r1"}',
    }

    settings = Settings.load(environ=environ)

    assert settings.schema_.features is not None
    assert settings.schema_.features[0].name == "age"
    assert settings.schema_.classes == ["a", 1, False]
    assert settings.kafka.client_properties()["client.rack"] == "r1"


def test_every_problem_is_reported_at_once_with_variable_value_and_expectation(
    tmp_path: Path,
) -> None:
    environ = {
        "LIVETREE_KAFKA__POLL_BATCH": "0",
        "LIVETREE_KAFKA__TOPC": "t",
        "LIVETREE_TREE__DELTA": "high",
        "LIVETREE_TREE__CRITERION": "entropy",
        "LIVETREE_UNKNOWN": "1",
        "LIVETREE_SCHEMA__FEATURES": "[1,",
        "LIVETREE_SOURCE": "file",
        "LIVETREE_VARIANT": "c45",
    }

    problems = problems_of(environ, tmp_path / "nowhere.yaml")

    text = "\n".join(problems)
    assert len(problems) == 9
    assert "nowhere.yaml'; expected a readable file" in text
    assert "kafka.poll_batch (LIVETREE_KAFKA__POLL_BATCH) is '0'; expected a value greater" in text
    assert "LIVETREE_KAFKA__TOPC) is not a setting; did you mean LIVETREE_KAFKA__TOPIC?" in text
    assert "(LIVETREE_TREE__DELTA) is 'high'; expected a valid number" in text
    assert "(LIVETREE_TREE__CRITERION) is 'entropy'; expected 'info_gain' or 'gini'" in text
    assert "(LIVETREE_UNKNOWN) is not a setting" in text
    assert "(LIVETREE_SCHEMA__FEATURES) is '[1,'; expected a JSON list or object" in text
    assert "(LIVETREE_FILE__PATH) is missing; expected the path of a file" in text
    assert "(LIVETREE_VARIANT) is 'c45'; expected one of " in text


def test_parameters_that_contradict_each_other_are_the_learners_to_refuse() -> None:
    problems = problems_of(tree={"remove_poor": True, "leaf_predictor": "nba"})

    assert len(problems) == 1
    assert "'remove_poor' is true with leaf_predictor 'nba'" in problems[0]


def test_every_parameter_of_the_tree_is_a_setting_but_the_one_that_only_measures() -> None:
    parameters = [field.name for field in dataclasses.fields(TreeParams)]

    assert [*TreeSettings.model_fields, "reference_from"] == parameters
    assert (
        "LIVETREE_TREE__REFERENCE_FROM) is not a setting"
        in problems_of({"LIVETREE_TREE__REFERENCE_FROM": "100"})[0]
    )


@pytest.mark.parametrize("name", TreeSettings.model_fields)
def test_a_setting_of_the_tree_takes_what_the_learner_takes(name: str) -> None:
    def taken(value: object) -> bool:
        try:
            TreeSettings.model_validate({name: value})
        except ValidationError:
            return False
        return True

    if name in CHOICES:
        assert all(taken(choice) for choice in CHOICES[name])
        assert not taken("nothing of the kind")
    elif name in BOUNDS:
        low, high, closed = BOUNDS[name]
        assert taken(low) == closed
        assert taken(high) == (name != "delta")
        assert not taken(low - 1)
        assert not taken(high * 2)
    else:
        assert taken(True)
        assert not taken("perhaps")
    assert taken(None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_alone_and_with_its_own_defaults_written_out_shape_the_same_tree(
    variant: str,
) -> None:
    alone = Settings.load(environ={}, variant=variant)
    written = Settings.load(environ={}, variant=variant, tree=alone.tree_params())

    assert written.tree_shaping() == alone.tree_shaping()
    assert written.shown() == alone.shown()
    for name, value in VARIANTS[variant].defaults.items():
        assert alone.tree_shaping()["tree"][name] == value


def test_variants_shape_different_trees() -> None:
    shapings = [Settings.load(environ={}, variant=name).tree_shaping() for name in VARIANTS]

    assert all(shapings.count(shaping) == 1 for shaping in shapings)


def test_what_an_old_checkpoint_does_not_know_had_the_default_of_its_own_variant() -> None:
    settings = Settings.load(environ={})

    assert settings.shaping_before({"variant": "vfdtc"})["tree"]["delta"] == 5e-05
    assert settings.shaping_before({})["tree"]["delta"] == 1e-07
    assert settings.shaping_before({"variant": "of tomorrow"})["variant"] == "vfdt"


@pytest.mark.parametrize(
    ("variant", "tree", "said"),
    [
        ("efdt", {"queue_bytes": 1_000_000}, "since queued nodes have no statistics"),
        ("streamtree", {"max_memory_bytes": 1_000_000}, "both would own the same memory"),
        ("imac", {"nominal_split": "subset"}, "cannot be followed"),
        ("vfdt", {"refine_threshold": True}, "is not looked at again"),
    ],
)
def test_a_combination_without_a_meaning_is_refused_with_the_reason(
    variant: str, tree: dict[str, Any], said: str
) -> None:
    (problem,) = problems_of(variant=variant, tree=tree)

    assert problem.startswith("tree (LIVETREE_TREE__...): parameter ")
    assert said in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- 1\n", "expected keys and values"),
        ("a: [\n", "expected YAML or JSON"),
        ("kafka: 3\n", "kafka (LIVETREE_KAFKA) is 3; expected"),
        ("kafka:\n  port: 3\n", "(LIVETREE_KAFKA__PORT) is not a setting"),
    ],
)
def test_a_config_file_of_a_wrong_shape_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text(content)

    assert said in "\n".join(problems_of(config_file=file))


def test_a_schema_file_is_checked_when_the_settings_are(tmp_path: Path) -> None:
    file = tmp_path / "schema.yaml"
    file.write_text("features:\n- {name: age, kind: number}\n")

    problems = problems_of(schema={"file": file})

    assert "feature 'age' is of kind 'number'; expected numeric" in problems[0]


def test_a_feature_may_not_have_the_name_of_the_label() -> None:
    problems = problems_of(schema={"features": [{"name": "label", "kind": "nominal"}]})

    assert "feature 'label'" in problems[0]


def test_one_field_cannot_be_two_things() -> None:
    problems = problems_of({"LIVETREE_EVENT__WEIGHT_FIELD": "label"})

    assert "['label'] twice" in problems[0]


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.partition.eof"])
def test_properties_that_exactly_once_training_rests_on_cannot_be_set(name: str) -> None:
    problems = problems_of(kafka={"extra": {name: "latest"}})

    assert name in problems[0]


def test_secrets_are_never_shown() -> None:
    settings = Settings.load(
        environ={"LIVETREE_KAFKA__PASSWORD": "hush-hush"},
        kafka={"extra": {"ssl.key.password": "hush-hush"}},
    )

    assert settings.kafka.client_properties()["sasl.password"] == "hush-hush"
    assert "hush-hush" not in str(settings.shown()) + repr(settings)
    assert settings.shown() == {
        "kafka.password": "**********",
        "kafka.extra.ssl.key.password": "**********",
    }


def test_only_what_was_set_is_shown() -> None:
    settings = Settings.load(environ={"LIVETREE_KAFKA__TOPIC": "clicks"}, tree={"n_min": 200.0})

    assert settings.shown() == {"kafka.topic": "clicks"}
    other = Settings.load(environ={"LIVETREE_TREE__TAU": "0.1"}, variant="imac")
    assert other.shown() == {"variant": "imac", "tree.tau": 0.1}


def test_a_secret_in_a_problem_is_masked() -> None:
    problems = problems_of(kafka={"password": ["hush-hush"]})

    assert "hush-hush" not in problems[0]


AVRO = {"LIVETREE_EVENT__FORMAT": "avro", "LIVETREE_EVENT__REGISTRY__URL": "http://r:8081"}
REGISTRY = "LIVETREE_EVENT__REGISTRY__"


def test_a_registry_is_a_group_within_the_events() -> None:
    own = {f"{REGISTRY}USERNAME": "me", f"{REGISTRY}PASSWORD": "hush-hush"}

    settings = Settings.load(environ=AVRO | own)

    assert settings.event.registry.url == "http://r:8081"
    assert "hush-hush" not in str(settings.shown()) + repr(settings)
    assert settings.shown()["event.registry.password"] == "**********"


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({f"{REGISTRY}URL": ""}, "event.registry.url (LIVETREE_EVENT__REGISTRY__URL) is missing"),
        ({f"{REGISTRY}URL": "r:8081"}, "is 'r:8081'; expected an address as in https://"),
        ({f"{REGISTRY}URL": "http://me:hush-hush@r"}, "expected an address as in https://"),
        ({f"{REGISTRY}USERNAME": "me"}, "has one of username and password; expected both"),
        ({f"{REGISTRY}PASSWORD": "hush-hush"}, "has one of username and password"),
        (
            {f"{REGISTRY}{x}": "hush-hush" for x in ("USERNAME", "PASSWORD", "TOKEN")},
            "has a username and a token; expected one way to get in",
        ),
        ({f"{REGISTRY}TOKEN": "hush-hush", f"{REGISTRY}TIMEOUT_SECONDS": "61"}, "is '61'"),
        (
            {f"{REGISTRY}TOKEN": "hush-hush", "LIVETREE_EVENT__ID_FIELD": "label"},
            "a field of its own for each",
        ),
        (
            {"LIVETREE_SOURCE": "file", "LIVETREE_FILE__PATH": "x"},
            "event.format (LIVETREE_EVENT__FORMAT) is 'avro'; expected json with the source file",
        ),
        (
            {"LIVETREE_EVENT__FORMAT": "protobuf"},
            "is 'protobuf'; expected 'json', 'avro' or 'binary'",
        ),
    ],
)
def test_avro_without_what_it_needs_is_refused_and_no_secret_is_shown(
    variables: dict[str, str], problem: str
) -> None:
    problems = problems_of(AVRO | variables)

    assert any(problem in line for line in problems)
    assert "hush-hush" not in str(problems)


def test_avro_without_its_extra_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)

    assert problems_of(AVRO) == [
        "event.format (LIVETREE_EVENT__FORMAT) is 'avro', which needs an extra; install it: "
        "pip install 'livetree[avro]'"
    ]
    assert Settings.load(environ={}).event.format == "json"


def test_variables_that_kubernetes_adds_for_a_service_are_no_settings() -> None:
    linked = {
        "LIVETREE_PORT": "tcp://10.0.0.1:8000",
        "LIVETREE_SERVICE_HOST": "10.0.0.1",
        "LIVETREE_SERVICE_PORT_HTTP": "8000",
        "LIVETREE_API_PORT_8000_TCP_ADDR": "10.0.0.1",
    }

    assert Settings.load(environ=linked) == Settings.load(environ={})


def test_an_empty_variable_counts_as_not_set() -> None:
    settings = Settings.load(environ={"LIVETREE_EVENT__ID_FIELD": "", "LIVETREE_NAME": ""})

    assert settings == Settings.load(environ={})


def test_settings_cannot_be_changed() -> None:
    settings = Settings.load(environ={})

    with pytest.raises(ValidationError):
        settings.kafka.topic = "other"  # type: ignore[misc]


def test_every_setting_has_a_sentence_and_a_default_within_its_bounds() -> None:
    def fields(model: type[BaseModel]) -> list[str]:
        bare = [name for name, field in model.model_fields.items() if not field.description]
        for field in model.model_fields.values():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                bare += fields(field.annotation)
        return bare

    assert fields(Settings) == []
    assert Settings.model_validate(Settings().model_dump(by_alias=True)) == Settings()


def test_every_setting_can_be_set_by_its_variable() -> None:
    names = {variable_of(path) for path in setting_paths(Settings)}

    assert {"LIVETREE_SCHEMA__FILE", "LIVETREE_TREE__N_MIN", "LIVETREE_LOG_LEVEL"} <= names


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LIVETREE_KAFKA__TOPIC": "a b"}, "is 'a b'; expected letters, digits, '_', '.' and '-'"),
        ({"LIVETREE_COLOUR": "red"}, "colour (LIVETREE_COLOUR) is not a setting"),
        ({"LIVETREE_TREE__NMIN": "1"}, "is not a setting; did you mean LIVETREE_TREE__N_MIN?"),
    ],
)
def test_a_problem_is_said_in_plain_words(environ: dict[str, str], expected: str) -> None:
    (problem,) = problems_of(environ)

    assert expected in problem
    assert ("did you mean" in problem) == ("did you mean" in expected)


def test_an_empty_text_is_too_short() -> None:
    (problem,) = problems_of(event={"label_field": ""})

    assert problem.endswith("is ''; expected at least 1 character")


def test_sasl_without_a_user_is_refused_before_the_client_library_speaks_of_kerberos() -> None:
    missing = problems_of({"LIVETREE_KAFKA__SECURITY_PROTOCOL": "SASL_SSL"})

    assert [line.split()[0] for line in missing] == [
        "kafka.sasl_mechanism",
        "kafka.username",
        "kafka.password",
    ]
    given = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "hush-hush"}
    Settings.load(environ={}, kafka={"security_protocol": "SASL_SSL", "extra": given})


def test_tokens_need_to_come_from_somewhere() -> None:
    bearer = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}

    (problem,) = problems_of(kafka=bearer)

    assert "has no 'sasl.oauthbearer.method'; expected it" in problem
    Settings.load(environ={}, kafka={**bearer, "extra": {"sasl.oauthbearer.method": "oidc"}})


def test_the_key_of_a_client_is_no_setting_and_no_fault() -> None:
    assert Settings.load(environ={"LIVETREE_API_KEY": "hush"}) == Settings.load(environ={})


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"password": "a", "password_file": "b"}, "either kafka.password or kafka.password_file"),
        ({"ssl_key_file": "b"}, "ssl_certificate_file and kafka.ssl_key_file, both or neither"),
        ({"ssl_certificate_file": "b"}, "both or neither"),
    ],
)
def test_kafka_settings_that_do_not_go_together_are_refused(
    kafka: dict[str, Any], said: str
) -> None:
    (problem,) = problems_of(kafka=kafka)

    assert said in problem


def test_an_empty_password_file_is_a_missing_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "me"}

    (problem,) = problems_of(kafka={**sasl, "password_file": tmp_path / "password"})

    assert "kafka.password (LIVETREE_KAFKA__PASSWORD) is missing" in problem
    (tmp_path / "password").write_text("  with blanks \r\n")
    kafka = Settings.load(environ={}, kafka={**sasl, "password_file": tmp_path / "password"}).kafka
    assert kafka.client_properties()["sasl.password"] == "  with blanks "


def test_security_settings_become_properties_of_the_client(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text("x")
    settings = Settings.load(
        environ={},
        kafka={
            "security_protocol": "SSL",
            "ssl_ca_file": tmp_path / "ca",
            "ssl_certificate_file": tmp_path / "certificate",
            "ssl_key_file": tmp_path / "key",
            "ssl_key_password": "hush-hush",
            "ssl_verify_hostname": False,
        },
    )

    assert settings.kafka.client_properties() == {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "certificate"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.key.password": "hush-hush",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert "ssl.endpoint.identification.algorithm" not in Settings().kafka.client_properties()
