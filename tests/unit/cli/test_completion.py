"""What the shell offers after TAB, without a cluster."""

from pathlib import Path

from kit.brokers.command_line import Ottla
from kit.brokers.processes import free_port


def offered(line: str, environment: dict[str, str] | None = None) -> list[str]:
    """As bash asks: the words so far, and which of them is being typed."""
    asked = {"_OTTLA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    lines = Ottla(f"127.0.0.1:{free_port()}", {**(environment or {}), **asked}).lines()
    return [name for name in lines if name]


def test_commands_verbs_and_options_are_offered() -> None:
    assert offered("ottla prod") == ["produce"]
    assert "delete-records" in offered("ottla topic ")
    assert "--where-header" in offered("ottla consume orders --where")
    assert offered("ottla topic create x --prof") == ["--profile"]


def test_profiles_are_offered_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[profiles.main]\n[profiles.more]\n[profiles.x]\n")
    environment = {"OTTLA_CONFIG": str(tmp_path / "config.toml")}
    assert offered("ottla topic list --profile m", environment) == ["main", "more"]
    assert offered("ottla profile show x", environment) == ["x"]


def test_a_cluster_that_is_not_there_and_a_broken_file_offer_nothing_and_say_nothing(tmp_path: Path) -> None:
    assert offered("ottla topic describe o") == []
    (tmp_path / "config.toml").write_text("broken")
    environment = {"OTTLA_CONFIG": str(tmp_path / "config.toml")}
    assert offered("ottla topic list --profile m", environment) == []
    assert offered("ottla consume --profile m o", environment) == []
