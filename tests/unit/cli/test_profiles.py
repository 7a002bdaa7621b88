"""Profiles: the file, the commands that change it, and which one holds."""

from pathlib import Path

import pytest

from kit.brokers.command_line import Ottla
from ottla.cli.profile_text import with_default, with_settings, without_profile
from ottla.cli.profiles import parse_profiles

FILE = """\
# clusters of mine
default = "here"

[profiles.here]   # on this machine
bootstrap.servers = "127.0.0.1:1"

[profiles."over there"]
"bootstrap.servers" = ["127.0.0.1:2", "127.0.0.1:3"]
request.timeout.ms = 9000   # far away
enable.idempotence = true
"""


def parsed(text: str) -> dict[str, dict[str, object]]:
    return {name: dict(settings) for name, settings in parse_profiles(Path("x"), text).settings.items()}


def test_names_with_dots_are_read_quoted_or_not() -> None:
    assert parsed(FILE) == {
        "here": {"bootstrap.servers": "127.0.0.1:1"},
        "over there": {
            "bootstrap.servers": ["127.0.0.1:2", "127.0.0.1:3"],
            "request.timeout.ms": 9000,
            "enable.idempotence": True,
        },
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[profiles", "at end of"),
        ("[clusters.x]", "'clusters' is neither"),
        ("profiles = 3", "each profile is a table"),
        ("default = 'x'", "the default 'x' is none"),
        ("[profiles.x]\nbootstrap = 'y:1'", "did you mean bootstrap.servers"),
        ("[profiles.x]\nclientid = 'y'", "did you mean client.id"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_profiles(Path("x"), text)


def test_a_change_leaves_comments_and_other_profiles_as_they_are() -> None:
    changed = with_settings(FILE, "over there", {"request.timeout.ms": "1000", "client.id": "me", "acks": ""})
    assert changed == FILE.replace("request.timeout.ms = 9000   # far away", "request.timeout.ms = 1000") + (
        'client.id = "me"\n'
    )
    assert with_settings(FILE, "here", {"acks": "1"}) == FILE.replace(':1"\n', ':1"\nacks = 1\n')
    assert without_profile(with_settings(FILE, "new one", {"acks": "all"}), "new one").rstrip() == FILE.rstrip()


def test_the_default_is_changed_and_goes_with_its_profile() -> None:
    changed = with_default(FILE, "over there")
    assert parse_profiles(Path("x"), changed).default == "over there"
    assert "# clusters of mine" in changed
    assert parse_profiles(Path("x"), without_profile(changed, "over there")).default is None


def test_text_that_cannot_be_changed_safely_is_left_alone() -> None:
    with pytest.raises(ValueError, match=r"with an editor|Cannot"):
        with_settings("profiles = {x = {acks = 1}}\n", "x", {"acks": "0"})


@pytest.fixture
def ottla(tmp_path: Path) -> Ottla:
    return Ottla(None, {"OTTLA_CONFIG": str(tmp_path / "deep" / "config.toml")})


def test_a_profile_is_made_shown_chosen_and_deleted(ottla: Ottla, tmp_path: Path) -> None:
    assert ottla.json("profile", "list") == []
    ottla("profile", "set", "far", "bootstrap.servers=127.0.0.1:7", "client.id=me")
    ottla("profile", "set", "near", "bootstrap.servers=127.0.0.1:8")
    ottla("profile", "use", "far")
    assert [(each["name"], each["default"]) for each in ottla.json("profile", "list")] == [
        ("far", True),
        ("near", False),
    ]
    assert ottla.lines("profile", "list")[1].split() == ["far", "*", "127.0.0.1:7", "1"]
    assert ottla.lines("profile", "show", "far") == ["bootstrap.servers=127.0.0.1:7", "client.id=me"]
    assert (tmp_path / "deep" / "config.toml").stat().st_mode & 0o777 == 0o600
    ottla("profile", "set", "far", "client.id=")
    assert ottla.json("profile", "show", "near")["settings"] == {"bootstrap.servers": "127.0.0.1:8"}
    ottla("profile", "delete", "far")
    assert [(each["name"], each["default"]) for each in ottla.json("profile", "list")] == [("near", False)]


def test_a_secret_is_not_shown_though_this_version_takes_none(ottla: Ottla, tmp_path: Path) -> None:
    refused = ottla.attempt("profile", "set", "far", "bootstrap.servers=127.0.0.1:7", "sasl.jaas.config=hush")
    assert "sasl.jaas.config cannot be set: this version speaks neither TLS nor SASL" in refused.stderr.decode()
    ottla("profile", "set", "far", "bootstrap.servers=127.0.0.1:7")
    with (tmp_path / "deep" / "config.toml").open("a") as file:
        file.write("sasl.jaas.config = 'hush'\n")
    assert ottla.lines("profile", "show", "far")[1:] == ["sasl.jaas.config=(secret)"]


@pytest.mark.parametrize(
    ("arguments", "environment", "asked"),
    [
        (("-b", "127.0.0.1:1"), {"OTTLA_BOOTSTRAP": "127.0.0.1:2"}, "127.0.0.1:1"),
        (("-b", "127.0.0.1:1", "--profile", "other"), {}, "127.0.0.1:1"),
        (("--profile", "other"), {"OTTLA_BOOTSTRAP": "127.0.0.1:2", "OTTLA_PROFILE": "main"}, "127.0.0.1:12"),
        (("--profile", "nowhere"), {"OTTLA_BOOTSTRAP": "127.0.0.1:2"}, "127.0.0.1:2"),
        ((), {"OTTLA_BOOTSTRAP": "127.0.0.1:2", "OTTLA_PROFILE": "other"}, "127.0.0.1:2"),
        ((), {"OTTLA_PROFILE": "other"}, "127.0.0.1:12"),
        ((), {}, "127.0.0.1:11"),
    ],
    ids=[
        "option",
        "option over profile",
        "profile option",
        "profile without brokers",
        "variable",
        "profile variable",
        "default",
    ],
)
def test_the_strongest_of_option_profile_and_variable_says_which_brokers(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], asked: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'default = "main"\n[profiles.main]\nbootstrap.servers="127.0.0.1:11"\n'
        '[profiles.other]\nbootstrap.servers="127.0.0.1:12"\n[profiles.nowhere]\nclient.id="x"\n'
    )
    answer = Ottla(None, {"OTTLA_CONFIG": str(file), **environment}).attempt("topic", "list", *arguments)
    assert answer.returncode == 1
    assert f"cannot reach {asked}: " in answer.stderr.decode()


def test_a_missing_profile_and_a_broken_file_are_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    ottla = Ottla(None, {"OTTLA_CONFIG": str(file)})
    missing = ottla.attempt("topic", "list", "--profile", "nobody")
    assert (missing.returncode, missing.stdout) == (1, b"")
    assert "no profile 'nobody' in" in missing.stderr.decode()
    file.write_text("default = [")
    broken = ottla.attempt("topic", "list")
    assert broken.returncode == 1
    assert f"{file} is not a file of profiles" in broken.stderr.decode()


def test_a_value_no_client_takes_is_not_written(ottla: Ottla) -> None:
    refused = ottla.attempt("profile", "set", "x", "acks=7")
    assert refused.returncode == 1
    assert "acks cannot be" in refused.stderr.decode()
    assert ottla.json("profile", "list") == []
