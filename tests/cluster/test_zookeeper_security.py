"""A cluster and its ZooKeeper prove themselves to each other, and nobody else changes what the cluster keeps there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from kit.brokers.processes import free_port
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ZooKeeperCluster
from kit.others.debian import program

PASSWORD = "not-a-secret"


def certificate(directory: Path) -> tuple[Path, Path]:
    """A key store for the server, and its certificate for those who trust it."""
    store, public = directory / "server.p12", directory / "server.pem"
    keytool = program("keytool")
    common = ["-alias", "server", "-keystore", str(store), "-storepass", PASSWORD]
    subprocess.run(
        [keytool, "-genkeypair", *common, "-storetype", "PKCS12", "-keyalg", "EC", "-validity", "2",
         "-dname", "CN=localhost", "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-ext", "BasicConstraints=ca:true"],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run([keytool, "-exportcert", "-rfc", *common, "-file", str(public)], check=True, capture_output=True)
    return store, public


def test_a_cluster_with_tls_a_password_and_guarded_znodes(tmp_path: Path) -> None:
    store, public = certificate(tmp_path)
    login = tmp_path / "login.conf"
    login.write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_ottla="{PASSWORD}"; }};\n'
    )
    port = free_port()
    settings = {
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(store),
        "ssl.keyStore.password": PASSWORD,
        "ssl.keyStore.type": "PKCS12",
        "ssl.clientAuth": "none",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    options = [f"-Djava.security.auth.login.config={login}"]
    with ZooKeeperEnsemble(tmp_path / "zookeeper", 1, settings, options) as ensemble:
        proof = {
            "zookeeper.connect": f"127.0.0.1:{port}/guarded",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(public),
            "zookeeper.set.acl": "true",
            "ottla.zookeeper.sasl.mechanism": "DIGEST-MD5",
            "ottla.zookeeper.sasl.username": "ottla",
            "ottla.zookeeper.sasl.password": PASSWORD,
        }
        with ZooKeeperCluster(tmp_path / "cluster", ensemble, 2, proof, chroot="/guarded") as cluster:
            cluster.create_topic("orders", copies=2)
            # Whoever comes without a name may look, and no more.
            assert cluster.znode("/brokers/topics/orders")["partitions"].keys() == {"0"}
            for path in ("/controller", "/brokers/topics/orders", "/controller_epoch"):
                with pytest.raises(NoAuthError):
                    cluster.tree.set(path, b"mine")
            with pytest.raises(NoAuthError):
                cluster.tree.create("/admin/delete_topics/orders")
        wrong = {**proof, "ottla.zookeeper.sasl.password": "guessed", "zookeeper.connection.timeout.ms": "15000"}
        command = [str(Path(sys.executable).with_name("ottla")), "serve", "--port", "0", "--data"]
        command.append(str(tmp_path / "wrong"))
        for name, value in wrong.items():
            command += ["--set", f"{name}={value}"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 1
        assert "does not believe who this node is" in answer.stderr, answer.stderr
