"""ZooKeeper servers beside a cluster on this machine: their files, and where the program is looked for."""

from pathlib import Path

import pytest

from kit.brokers.processes import free_port
from ottla.node import local_ensemble
from ottla.node.local_ensemble import MAIN, connect_string, launch_command, prepare_ensemble
from ottla.node.options import StartFailure


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_servers_are_made_once_and_found_again(tmp_path: Path) -> None:
    made = prepare_ensemble(str(tmp_path), 3, free_port() - local_ensemble.PORTS_ABOVE)
    texts = [Path(server.settings_file).read_text() for server in made]
    assert prepare_ensemble(str(tmp_path), None, 1) == made
    assert [Path(server.settings_file).read_text() for server in made] == texts
    assert [Path(server.folder, "data", "myid").read_text() for server in made] == ["1\n", "2\n", "3\n"]
    assert connect_string(made) == ",".join(f"127.0.0.1:{server.port}" for server in made)
    for number, text in enumerate(texts, 1):
        assert f"clientPort={made[number - 1].port}\n" in text
        assert all(f"server.{each.number}={each.between}\n" in text for each in made)


def test_one_server_names_no_others(tmp_path: Path) -> None:
    (server,) = prepare_ensemble(str(tmp_path), None, free_port() - local_ensemble.PORTS_ABOVE)
    assert "server." not in Path(server.settings_file).read_text()


def test_an_ensemble_does_not_grow_by_itself(tmp_path: Path) -> None:
    prepare_ensemble(str(tmp_path), 1, free_port() - local_ensemble.PORTS_ABOVE)
    with pytest.raises(StartFailure, match="holds 1 ZooKeeper server, which stay as many"):
        prepare_ensemble(str(tmp_path), 3, 1)


def test_a_release_that_was_unpacked_is_found_by_its_folder_or_its_script(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java")
    program(tmp_path / "release" / "bin" / "zkServer.sh")
    (tmp_path / "release" / "lib").mkdir()
    (tmp_path / "release" / "lib" / "zookeeper.jar").touch()
    path = f"{tmp_path}/bin"
    by_folder = launch_command({"PATH": path, "ZOOKEEPER_HOME": f"{tmp_path}/release"})
    assert by_folder == [f"{tmp_path}/bin/java", *local_ensemble.OPTIONS, f"{tmp_path}/release/lib/*", MAIN]
    assert launch_command({"PATH": f"{path}:{tmp_path}/release/bin"}) == by_folder


def test_where_there_is_none_it_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ensemble, "DEBIAN_JAR", f"{tmp_path}/zookeeper.jar")
    with pytest.raises(StartFailure, match="apt-get install zookeeper"):
        launch_command({"PATH": str(tmp_path)})
