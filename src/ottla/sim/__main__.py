"""`python -m ottla.sim`: one seed, or one after the other as long as it is let.

Owns: the command line and what is printed. A failing seed prints its violations, the end of its history, and the one
command that repeats it.
"""

import argparse
import os
import sys
import time

HISTORY_LINES = 400


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one universe and print its history")
    parser.add_argument("--start", type=int, default=1, help="the first seed of a long run")
    parser.add_argument("--count", type=int, default=0, help="how many seeds; 0 goes on until stopped")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failing seed")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set of strings must be the same in every run of a seed.
        os.execve(
            sys.executable, [sys.executable, "-m", "ottla.sim", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    if options.seed is not None:
        return 0 if _run_one(options.seed, aloud=True) else 1
    return _run_many(options.start, options.count, options.keep_going)


def _run_one(seed: int, *, aloud: bool) -> bool:
    from ottla.sim.universe import Universe

    verdict = Universe(seed).run()
    if aloud or verdict.violations:
        print("\n".join(verdict.lines if aloud else verdict.lines[-HISTORY_LINES:]))
        print(
            f"seed {seed}: {verdict.virtual_seconds:.1f} virtual seconds, {verdict.faults} faults, "
            f"{verdict.acknowledgements} acknowledged writes, {verdict.transactions} transactions, "
            f"fingerprint {verdict.fingerprint}"
        )
    for violation in verdict.violations:
        print(f"VIOLATION {violation}")
    if verdict.violations:
        print(f"repeat it with: python -m ottla.sim --seed {seed}")
    return not verdict.violations


def _run_many(start: int, count: int, keep_going: bool) -> int:
    began = time.monotonic()
    failed: list[int] = []
    done = 0
    try:
        while not count or done < count:
            if not _run_one(start + done, aloud=False):
                failed.append(start + done)
                if not keep_going:
                    break
            done += 1
            rate = done / (time.monotonic() - began)
            print(f"\r{done} seeds from {start}, {rate:.2f} seeds/s, failures: {failed or 'none'} ", end="", flush=True)
    except KeyboardInterrupt:
        pass
    print(f"\n{done} seeds, failures: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
