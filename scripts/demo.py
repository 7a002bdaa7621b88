"""`make demo`: ottla at work in a few seconds, through its own command line, then stopped and cleaned up.

Prints every command it runs, so that a reader can run them again by hand. Ends with 0 only when every step did what it
says.
"""

import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OTTLA = Path(sys.executable).with_name("ottla")
TOPIC = "greetings"
LINES = ["ann:hello, world", "bob:one broker", "cleo:three partitions", "ann:any Kafka client", "dora:good bye"]
STEP_SECONDS = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


class Server:
    """`ottla serve` on a free port."""

    def __init__(self, data: str) -> None:
        self.port = free_port()
        self._command = ["serve", "--port", str(self.port), "--data", data]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        say(f"$ ottla {shlex.join(self._command)} &")
        begin = time.monotonic()
        self._process = subprocess.Popen([str(OTTLA), *self._command], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready:
            raise SystemExit(f"demo: the broker ended with code {self._process.wait(STEP_SECONDS)}")
        print(f"{ready.rstrip()}\n({time.monotonic() - begin:.2f} s after its start)")

    def end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        code = process.wait(STEP_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code


def run(*arguments: str, given: str = "") -> str:
    """Run one ottla command, show it and what it prints; its standard output."""
    say(f"$ ottla {shlex.join(arguments)}")
    for line in given.splitlines():
        print(f"  < {line}")
    done = subprocess.run(
        [str(OTTLA), *arguments], input=given, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
    )
    print(done.stdout, end="", flush=True)
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        raise SystemExit(f"demo: this command ended with code {done.returncode}")
    return done.stdout


def read_all(there: list[str]) -> None:
    read = run("consume", TOPIC, "--until-end", "--offsets", "--keys", *there)
    missing = [line for line in LINES if line.split(":")[1] not in read]
    if missing:
        raise SystemExit(f"demo: these lines were produced and not consumed: {missing}")


def main() -> None:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as data:
        server = Server(data)
        there = ["--bootstrap", f"127.0.0.1:{server.port}"]
        try:
            server.start()
            run("topic", "create", TOPIC, "--partitions", "3", *there)
            run("produce", TOPIC, "--key-separator", ":", *there, given="".join(f"{line}\n" for line in LINES))
            read_all(there)
            run("topic", "describe", TOPIC, *there)
            say("now the broker is killed with SIGKILL and started again: what was acknowledged is there")
            server.end(signal.SIGKILL)
            server.start()
            read_all(there)
            say("and stopped with SIGTERM")
            code = server.end(signal.SIGTERM)
            if code:
                raise SystemExit(f"demo: the broker ended with code {code}")
        finally:
            server.end(signal.SIGKILL)
    say(f"That was a broker, a topic, a producer, a crash and two consumers in {time.monotonic() - begin:.1f} seconds.")
    print("Start your own with   .venv/bin/ottla serve   and point any Kafka client at localhost:9092.")


if __name__ == "__main__":
    main()
