"""A broker that cannot start says in one sentence what is wrong and what to do, and ends with code 1."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.bystander import create_topic
from kit.brokers.processes import OttlaProcess, free_port
from kit.wire.raw import RawConnection

SECONDS = 120.0


def last_words(data: Path | str, *arguments: str, port: int | None = None) -> list[str]:
    """What `ottla serve` says on standard error before it ends with code 1."""
    program = str(Path(sys.executable).with_name("ottla"))
    command = [program, "serve", "--port", str(free_port() if port is None else port), "--data", str(data), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert answer.returncode == 1, f"code {answer.returncode}:\n{answer.stdout}{answer.stderr}"
    assert "Traceback" not in answer.stderr
    said = answer.stderr.strip().splitlines()
    assert said, "it says something"
    return said


def complaint(data: Path | str, *arguments: str, port: int | None = None) -> str:
    """The one sentence of a node that does not get as far as to tell of anything else."""
    said = last_words(data, *arguments, port=port)
    assert len(said) == 1, f"one sentence:\n{said}"
    return said[0]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("log.retention.huors=5", ["log.retention.huors", "log.retention.hours"]),
        ("num.partitions=many", ["num.partitions", "many"]),
        ("num.partitions=0", ["num.partitions", "0"]),
        ("num.partitions", ["num.partitions", "="]),
        ("log.cleanup.policy=burn", ["log.cleanup.policy", "burn"]),
        ("listeners=nonsense", ["listeners", "nonsense"]),
        ("listeners=SSL://localhost:19092", ["SSL", "neither TLS nor SASL"]),
        ("listener.security.protocol.map=PLAINTEXT:SASL_SSL", ["PLAINTEXT", "SASL_SSL", "neither TLS nor SASL"]),
        ("ssl.keystore.location=/etc/kafka/server.keystore.jks", ["ssl.keystore.location", "neither TLS nor SASL"]),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, setting: str, words: list[str]) -> None:
    said = complaint(tmp_path / "data", "--set", setting)
    for word in words:
        assert word in said, said


def test_a_wrong_setting_in_the_file_is_named_and_so_is_a_missing_file(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    assert str(settings) in complaint(tmp_path / "data", "--config", str(settings))
    settings.write_text("num.partitions=3\nlog.segment.bites=5\n")
    said = complaint(tmp_path / "data", "--config", str(settings))
    assert "log.segment.bites" in said
    assert "log.segment.bytes" in said


def test_data_whose_metadata_is_gone_is_not_put_aside_for_a_new_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with OttlaProcess(data) as broker, RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, "kept")
    shutil.rmtree(data / "__cluster_metadata-0")
    said = last_words(data)[-1]
    assert "kept-0" in said
    assert "does not found a new cluster" in said
    assert (data / "kept-0").is_dir()
    # The second time there is a log with an election in it, and still no metadata.
    assert last_words(data)[-1] == said


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I was here first")
    assert str(tmp_path / "data") in complaint(tmp_path / "data")


def test_a_data_directory_that_cannot_be_made_is_named() -> None:
    # Nobody can make a directory there, not even root.
    assert "/proc/self/ottla" in complaint("/proc/self/ottla")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = complaint(tmp_path / "data", port=port)
    assert str(port) in said
    assert "use" in said


def test_a_data_directory_in_use_is_named(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data"):
        said = complaint(tmp_path / "data")
    assert str(tmp_path / "data") in said
    assert "use" in said


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with OttlaProcess(tmp_path / name):
            pass
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    said = complaint(tmp_path / "one", "--set", f"log.dirs={both}")
    assert "cluster" in said
    assert str(tmp_path / "two") in said


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data", {"node.id": "7"}):
        pass
    said = complaint(tmp_path / "data", "--set", "node.id=8")
    assert "7" in said
    assert "8" in said
    assert "node.id" in said


def test_a_broken_meta_properties_file_is_named(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data"):
        pass
    (tmp_path / "data" / "meta.properties").write_text("version=99\n")
    assert "meta.properties" in complaint(tmp_path / "data")
