"""Named profiles: which cluster is meant, and how its clients are set, kept in a file.

Owns: where the file is, its shape, and which profile holds for a command. Never knows: what the settings do. The file
is TOML:

    default = "local"

    [profiles.local]
    bootstrap.servers = "localhost:9092"

Invariants: a profile's settings have Kafka's names, each known to some kind of client; whoever names brokers without
naming a profile gets no profile, so that one cluster's settings never reach another.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CONFIG_FILE = "OTTLA_CONFIG"
PROFILE = "OTTLA_PROFILE"
BOOTSTRAP = "OTTLA_BOOTSTRAP"
SERVERS = "bootstrap.servers"


class Profiles(NamedTuple):
    """What the file says; without a file there are none."""

    path: Path
    default: str | None
    settings: Mapping[str, Mapping[str, object]]


def config_path() -> Path:
    """$OTTLA_CONFIG, or ottla/config.toml where this user's programs keep such files."""
    named = os.environ.get(CONFIG_FILE)
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "ottla" / "config.toml"


def read_profiles() -> Profiles:
    """The file's content; Failure with the file's name when it cannot be understood."""
    from ottla.cli.failures import Failure

    path = config_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Profiles(path, None, {})
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"cannot read {path}: {problem}; name another file with {CONFIG_FILE}") from None
    try:
        return parse_profiles(path, text)
    except ValueError as problem:
        raise Failure(f"{path} is not a file of profiles: {problem}; repair it, or move it away") from None


def parse_profiles(path: Path, text: str) -> Profiles:
    """The profiles in the text of a file; ValueError with what is wrong."""
    import tomllib

    content = tomllib.loads(text)
    unknown = content.keys() - {"default", "profiles"}
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]!r} is neither 'default' nor 'profiles'")
    tables = content.get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError("each profile is a table, as in [profiles.local]")
    profiles = {name: dict(_flat(table)) for name, table in tables.items()}
    for name, settings in profiles.items():
        for setting in settings.keys() - {SERVERS}:
            _check_name(name, setting)
    default = content.get("default")
    if default is not None and default not in profiles:
        raise ValueError(f"the default {default!r} is none of its profiles")
    return Profiles(path, default, profiles)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Kafka's names have dots, which TOML reads as tables in tables unless they are quoted."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _check_name(profile: str, setting: str) -> None:
    from ottla.client.settings import KINDS
    from ottla.client.settings.nearest import nearest

    known = {name: None for kind in KINDS for name in kind.settings}
    if setting not in known:
        close = SERVERS if setting == "bootstrap" else nearest(setting, known)
        hint = f"; did you mean {close}?" if close else ""
        raise ValueError(f"profile {profile!r} has {setting}, which is no setting of a client{hint}")


def choose_profile(name: str) -> None:
    """What --profile does: the named profile holds from here on, its brokers whatever the environment says of any."""
    if SERVERS in settings_of(read_profiles(), name):
        os.environ.pop(BOOTSTRAP, None)
    os.environ[PROFILE] = name


def chosen_settings() -> Mapping[str, object]:
    """The settings of the profile that was chosen; none without one."""
    name = os.environ.get(PROFILE)
    return settings_of(read_profiles(), name) if name else {}


def settings_of(found: Profiles, name: str) -> Mapping[str, object]:
    """One profile; Failure when there is none of this name."""
    from ottla.cli.failures import Failure

    if name not in found.settings:
        there = f"there are {', '.join(sorted(found.settings))}" if found.settings else "there are none yet"
        raise Failure(
            f"no profile {name!r} in {found.path}: {there}; 'ottla profile set {name} {SERVERS}=HOST:PORT' makes it"
        )
    return found.settings[name]


def text_of(value: object) -> str:
    """A setting's value as Kafka's files write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def fall_back_on_default() -> Mapping[str, object]:
    """The chosen profile's settings, or else those of the file's default, which is chosen by this."""
    if os.environ.get(PROFILE):
        return chosen_settings()
    if not config_path().exists():
        return {}
    found = read_profiles()
    if found.default is None:
        return {}
    os.environ[PROFILE] = found.default
    return found.settings[found.default]
