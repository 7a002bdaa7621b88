"""What the command line and a settings file mean together."""

from pathlib import Path

import pytest

from ottla.node.options import Options, StartFailure, resolve


def test_without_a_word_it_is_port_9092_on_this_machine_and_data_beside() -> None:
    values = resolve(Options())
    assert values.listing("listeners") == ("PLAINTEXT://localhost:9092",)
    assert values.listing("log.dirs") == ("./ottla-data",)
    assert values.integer("node.id") == 1


def test_only_a_node_without_a_settings_file_forms_groups_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\n")
    name = "group.initial.rebalance.delay.ms"
    assert resolve(Options()).integer(name) == 0
    assert resolve(Options(config=str(file))).integer(name) == 3000
    assert resolve(Options(assignments=(f"{name}=50",))).integer(name) == 50


def test_a_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:7000\nlog.dirs=/a,/b\nnum.partitions=3\nnode.id=5\n")
    from_file = resolve(Options(config=str(file)))
    assert from_file.listing("listeners") == ("PLAINTEXT://:7000",)
    assert from_file.listing("log.dirs") == ("/a", "/b")
    values = resolve(Options(port=7001, data="/c", config=str(file), assignments=("num.partitions=4",)))
    assert values.listing("listeners") == ("PLAINTEXT://localhost:7001",)
    assert values.listing("log.dirs") == ("/c",)
    assert values.integer("num.partitions") == 4
    assert values.integer("node.id") == 5


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("num.partitons=4", "did you mean 'num.partitions'"),
        ("num.partitions=many", "num.partitions"),
        ("num.partitions", "name=value"),
    ],
)
def test_a_wrong_setting_is_told_in_a_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(StartFailure, match=sentence):
        resolve(Options(assignments=(assignment,)))


def test_a_settings_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartFailure, match=r"cannot read the settings file .*: No such file or directory\."):
        resolve(Options(config=str(tmp_path / "missing")))
