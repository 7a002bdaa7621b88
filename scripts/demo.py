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
LINES = ["hello, world", "one broker", "three partitions", "any Kafka client", "good bye"]
STEP_SECONDS = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def show(*arguments: str) -> None:
    print(
        f"\n\033[1m$ ottla {shlex.join(arguments)}\033[0m"
        if sys.stdout.isatty()
        else f"\n$ ottla {shlex.join(arguments)}"
    )
    sys.stdout.flush()


def run(*arguments: str, given: str = "") -> str:
    """Run one ottla command, show it and what it prints; its standard output."""
    show(*arguments)
    for line in given.splitlines():
        print(f"  < {line}")
    done = subprocess.run(
        [str(OTTLA), *arguments], input=given, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
    )
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        raise SystemExit(f"demo: this command ended with code {done.returncode}")
    return done.stdout


def main() -> None:
    begin = time.monotonic()
    port = free_port()
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as data:
        serve = ["serve", "--port", str(port), "--data", data]
        show(*serve)
        broker = subprocess.Popen([str(OTTLA), *serve], stdout=subprocess.PIPE, text=True)
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            if not ready:
                raise SystemExit(f"demo: the broker ended with code {broker.wait(STEP_SECONDS)}")
            print(f"{ready.rstrip()}   ({time.monotonic() - begin:.2f} s after its start)")
            tour(address)
            print("\nstopping the broker with SIGTERM")
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(STEP_SECONDS)
            if code:
                raise SystemExit(f"demo: the broker ended with code {code}")
        finally:
            broker.kill()
            broker.wait()
    print(f"\nThat was a broker, a topic, a producer and a consumer in {time.monotonic() - begin:.1f} seconds.")
    print("Start your own:  .venv/bin/ottla serve   and point any Kafka client at 127.0.0.1:9092.")


def tour(address: str) -> None:
    there = ["--bootstrap", address]
    run("topic", "create", TOPIC, "--partitions", "3", *there)
    run("produce", TOPIC, *there, given="".join(f"{line}\n" for line in LINES))
    read = run("consume", TOPIC, "--until-end", "--offsets", *there)
    missing = [line for line in LINES if line not in read]
    if missing:
        raise SystemExit(f"demo: these lines were produced and not consumed: {missing}")
    run("topic", "describe", TOPIC, *there)


if __name__ == "__main__":
    main()
