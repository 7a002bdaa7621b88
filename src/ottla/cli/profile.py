"""`ottla profile …`: clusters by name.

Owns: the commands. Never knows: the file's shape (`profiles`), nor how its text is changed (`profile_text`).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.output import Column, Table, say, show, show_json
from ottla.cli.session import AsJson

app = typer.Typer(help="Name clusters and their settings, to be chosen with --profile.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PROFILE", help="The profile's name.")]


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles of the config file, the default with a star.

    \b
    ottla profile list
    """
    from ottla.cli.profiles import SERVERS, read_profiles, text_of

    found = read_profiles()
    rows = [(name, name == found.default, settings) for name, settings in sorted(found.settings.items())]
    if as_json:
        show_json([{"name": name, "default": default, "settings": _plain(each)} for name, default, each in rows])
        return
    cells = [
        [name, "*" if default else "", text_of(settings.get(SERVERS, "")), str(len(settings.keys() - {SERVERS}))]
        for name, default, settings in rows
    ]
    columns = [Column("PROFILE"), Column("DEFAULT"), Column("BROKERS"), Column("OTHER SETTINGS", True)]
    show(Table(columns, cells))


@app.command("show")
def show_profile(name: Name, as_json: AsJson = False) -> None:
    """Show the settings of a profile. Passwords are not shown.

    \b
    ottla profile show production
    """
    from ottla.cli.profiles import read_profiles, settings_of

    settings = _plain(settings_of(read_profiles(), name))
    if as_json:
        show_json({"name": name, "settings": settings})
    else:
        say("".join(f"{setting}={value}\n" for setting, value in settings.items()))


@app.command("set")
def set_settings(
    name: Name,
    assignments: Annotated[
        list[str], typer.Argument(metavar="SETTING=VALUE…", help="Client settings by Kafka's names; no value: removed.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make or change a profile in the config file; what else is written there stays.

    \b
    ottla profile set staging bootstrap.servers=kafka-1:9092,kafka-2:9092
    ottla profile set staging client.id=reports isolation.level=read_committed
    ottla profile set staging client.id=                 takes the setting away
    """
    from ottla.cli.profile_text import with_settings
    from ottla.cli.topic import parse_settings

    path = _change(lambda text: with_settings(text, name, parse_settings(assignments, "SETTING=VALUE")))
    _tell(f"profile {name!r} is in {path}", {"name": name, "file": str(path)}, as_json)


@app.command()
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a profile the default: the one that holds where neither brokers nor a profile are named.

    \b
    ottla profile use staging
    """
    from ottla.cli.profile_text import with_default
    from ottla.cli.profiles import read_profiles, settings_of

    settings_of(read_profiles(), name)
    path = _change(lambda text: with_default(text, name))
    _tell(f"{name!r} is the default profile", {"default": name, "file": str(path)}, as_json)


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Take a profile out of the config file.

    \b
    ottla profile delete staging
    """
    from ottla.cli.profile_text import without_profile
    from ottla.cli.profiles import read_profiles, settings_of

    settings_of(read_profiles(), name)
    path = _change(lambda text: without_profile(text, name))
    _tell(f"profile {name!r} is no longer in {path}", {"deleted": name, "file": str(path)}, as_json)


def _tell(sentence: str, content: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        show_json(content)
    else:
        say(sentence + "\n")


def _change(edit: Callable[[str], str]) -> Path:
    """Change the config file's text; nothing is written unless the result is a file of profiles that clients take."""
    from ottla.cli.failures import Failure
    from ottla.cli.profiles import config_path, parse_profiles, read_profiles
    from ottla.client.errors import InvalidSetting

    path = config_path()
    text = path.read_text(encoding="utf-8") if read_profiles().settings or path.exists() else ""
    try:
        changed = edit(text)
        for settings in parse_profiles(path, changed).settings.values():
            _check(settings)
    except (ValueError, InvalidSetting) as problem:
        raise Failure(f"{path} stays as it is: {problem}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # there may be passwords in it
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(changed)
    beside.replace(path)
    return path


def _check(settings: Mapping[str, object]) -> None:
    """InvalidSetting when one of them has a value that no client takes."""
    from ottla.cli.session import DEFAULT_BOOTSTRAP
    from ottla.client.settings import KINDS, load

    for kind in KINDS:
        own = {name: value for name, value in settings.items() if name in kind.settings}
        load(kind, {"bootstrap.servers": DEFAULT_BOOTSTRAP, **own}, {})


def _plain(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as text, without what is secret."""
    from ottla.cli.profiles import text_of
    from ottla.client.settings import KINDS

    secret = {name for kind in KINDS for name, setting in kind.settings.items() if setting.sensitive}
    return {name: "(secret)" if name in secret else text_of(value) for name, value in settings.items()}
