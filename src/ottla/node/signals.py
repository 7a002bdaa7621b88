"""Which signals end a node, or a cluster of them, cleanly.

Owns: that list. Never knows: what ending means. Invariant: a terminal that is closed ends what runs in it as Ctrl-C
does, unless it was started with `nohup`, which has the signal ignored before the program begins.
"""

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals to listen for, as this process was started."""
    asked = (signal.SIGTERM, signal.SIGINT)
    hang_up = getattr(signal, "SIGHUP", None)  # some systems have none
    if hang_up is None or signal.getsignal(hang_up) == signal.SIG_IGN:
        return asked
    return (*asked, hang_up)
