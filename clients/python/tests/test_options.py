"""Settings, from the environment and by hand."""

from pathlib import Path

import pytest

from platform_auth import Verifier, VerifierConfigurationError
from platform_auth.options import Settings, read_environment

ENVIRONMENT = {
    "AUTH_URL": "https://auth.example/",
    "AUTH_APP_ID": "01985f4e-7c3a-7b52-9d1e-000000000c01",
    "AUTH_APP_KEY": "pa_app_secret",
    "SERVICE_NAME": "recipes",
}


def test_reads_what_init_writes() -> None:
    variables = {**ENVIRONMENT, "SECRET_KEY": "s" * 32, "AUTH_JWKS_URL": " ", "JWT_AUDIENCE": "recipes", "OTHER": "x"}
    settings = Settings(**read_environment(variables))
    assert (settings.url, settings.service_name) == ("https://auth.example", "recipes")
    assert (settings.secret_key, settings.jwks_url, settings.audience) == ("s" * 32, None, "recipes")
    assert settings.issuer == "platform-auth"


def test_takes_the_secret_with_its_blanks_as_the_service_does() -> None:
    secret = "s" * 32 + "\n"
    assert read_environment({**ENVIRONMENT, "SECRET_KEY": secret})["secret_key"] == secret
    assert "secret_key" not in read_environment({**ENVIRONMENT, "SECRET_KEY": " \n"})


def test_takes_the_previous_secret_as_it_is_too_and_only_beside_the_secret() -> None:
    secret = "p" * 32 + "\n"
    variables = {**ENVIRONMENT, "SECRET_KEY": "s" * 32, "SECRET_KEY_PREVIOUS": secret}
    assert Settings(**read_environment(variables)).secret_key_previous == secret
    assert "secret_key_previous" not in read_environment({**variables, "SECRET_KEY_PREVIOUS": " \n"})
    with pytest.raises(VerifierConfigurationError) as raised:
        Settings(**read_environment({**variables, "SECRET_KEY": ""}))
    assert str(raised.value) == "secret_key_previous (SECRET_KEY_PREVIOUS) must have at least 32 bytes, in UTF-8, and needs SECRET_KEY"


def test_takes_the_key_from_a_file_with_or_without_a_line_break_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "key"
    variables = {**ENVIRONMENT, "AUTH_APP_KEY": "", "AUTH_APP_KEY_FILE": str(file)}
    for text in ("pa_app_of-file", "pa_app_of-file\n", "pa_app_of-file\r\n"):
        file.write_text(text, newline="")
        assert Settings(**read_environment(variables)).own_key.key == "pa_app_of-file"
    with pytest.raises(VerifierConfigurationError, match="AUTH_APP_KEY_FILE.*excludes app_key"):
        Settings(**read_environment({**variables, "AUTH_APP_KEY": "pa_app_key"}))
    file.write_text("pa_app_of file\n")
    with pytest.raises(VerifierConfigurationError, match="AUTH_APP_KEY_FILE"):
        Settings(**read_environment(variables))
    file.unlink()
    with pytest.raises(VerifierConfigurationError, match="AUTH_APP_KEY_FILE"):
        Settings(**read_environment(variables))


@pytest.mark.parametrize("text", ["soon", "-1", "61", "nan", "1e1", "٣"])
def test_takes_an_outage_grace_of_the_environment_and_names_one_that_is_not_valid(text: str) -> None:
    assert Settings(**read_environment({**ENVIRONMENT, "AUTH_OUTAGE_GRACE_SECONDS": " 2.5"})).outage_grace_seconds == 2.5
    with pytest.raises(VerifierConfigurationError, match="AUTH_OUTAGE_GRACE_SECONDS"):
        Verifier.from_environment({**ENVIRONMENT, "AUTH_OUTAGE_GRACE_SECONDS": text})


def test_takes_options_beside_the_environment() -> None:
    verifier = Verifier.from_environment({**ENVIRONMENT, "AUTH_URL": "http://127.0.0.1:1"}, max_entries=5)
    assert verifier._settings.max_entries == 5
    verifier.close()


def test_names_every_variable_that_is_missing() -> None:
    with pytest.raises(VerifierConfigurationError) as raised:
        read_environment({"AUTH_URL": "http://auth", "SERVICE_NAME": "  "})
    assert str(raised.value) == "Not set: AUTH_APP_ID, AUTH_APP_KEY, SERVICE_NAME"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("url", url) for url in ("", "auth", "ftp://auth", "http://", "http://[", "http://a b", "http://auth:99999")],
        *[("url", "http://a:b@auth"), ("url", "http://a@auth"), ("url", "http://auth/?a"), ("url", "http://auth/#a")],
        *[("url", "http://auth/?"), ("jwks_url", "http://auth/jwks.json?a"), ("url", "http://auth:x"), ("url", "http://\x00")],
        # urlsplit drops these characters, and would name another host.
        *[("url", url) for url in ("http://ho\nst", "http://ho\tst", "http://auth\r", " http://auth", "\x00http://auth", "http://auth ")],
        *[("url", url) for url in ("http://auth\x7f", "http://auth/\x85", "http://auth\u3000", "http:// auth")],
        ("jwks_url", "http://auth/jwks\n.json"),
        *[("app_id", ""), ("app_id", "clé"), ("app_key", "a b"), ("app_key", "pa_app_a\n"), ("service_name", "a b")],
        *[("app_id", "recipes"), ("app_id", ENVIRONMENT["AUTH_APP_ID"][:-1]), ("app_key", "pa_node_secret"), ("app_key", "pa_app_é")],
        *[("app_key", ENVIRONMENT["AUTH_APP_ID"]), ("app_key", '"pa_app_quoted"'), ("app_id", "pa_app_a-key-in-its-place")],
        *[("service_name", "recipes\n"), ("jwks_url", "/.well-known/jwks.json"), ("secret_key", "short")],
        *[("outage_grace_seconds", -1), ("outage_grace_seconds", 61), ("max_entries", 0), ("max_questions", 0)],
        *[("secret_key_previous", "short"), ("outage_grace_seconds", float("nan")), ("issuer", ""), ("audience", "")],
        # os.environ has this in place of a byte that is not UTF-8.
        *[(name, "s" * 32 + "\udcff") for name in ("app_id", "app_key", "service_name", "secret_key", "secret_key_previous")],
        *[(name, "http://auth/\udcff") for name in ("url", "jwks_url", "issuer", "audience")],
        ("url", "http://auth\udcff"),
        # Values of another type.
        *[("url", None), ("url", b"http://auth"), ("app_id", None), ("app_key", 7), ("service_name", None)],
        *[("secret_key", b"s" * 32), ("secret_key_previous", b"s" * 32), ("jwks_url", 7), ("issuer", None)],
        *[("audience", ["recipes"]), ("outage_grace_seconds", "5"), ("outage_grace_seconds", True), ("max_entries", "5")],
        *[("max_questions", 1.5), ("max_questions", True), ("logger", "root")],
    ],
)
def test_names_a_setting_that_is_not_valid_and_never_its_value(option: str, value: object) -> None:
    options = {"url": "http://auth", "app_id": ENVIRONMENT["AUTH_APP_ID"], "app_key": "pa_app_of-a-test", "service_name": "recipes"}
    options["secret_key"] = "s" * 32
    with pytest.raises(VerifierConfigurationError) as raised:
        Settings(**{**options, option: value})  # type: ignore[arg-type]
    assert str(raised.value).startswith(option)
    assert "of-a-test" not in str(raised.value)
    if isinstance(value, str) and len(value) > 5:
        assert value not in repr((raised.value, raised.value.__cause__, raised.value.__context__))


def test_prints_no_secret() -> None:
    settings = Settings(**read_environment({**ENVIRONMENT, "SECRET_KEY": "s" * 32, "SECRET_KEY_PREVIOUS": "p" * 32}))
    assert "pa_app_secret" not in repr(settings)
    assert "s" * 32 not in repr(settings)
    assert "p" * 32 not in repr(settings)
