"""How the descriptors of the process are shared out.

Owns: the limit (`ulimit -n`) and what it leaves for log files and for connections. Never knows: files, sockets.
Invariant: both shares and what the node itself needs (listeners, locks, links to other nodes, files that are written
in a moment by its threads) fit into the limit, so that neither clients nor partitions can take what the other needs.
"""

import logging
from typing import NamedTuple

logger = logging.getLogger("ottla.node")

_UNLIMITED = 1 << 20
_LEAST_OWN, _MOST_OWN = 48, 1024
FOR_NODES = 16
"""So many connections more are taken at listeners for other nodes only, out of what the node keeps for itself."""


class Shares(NamedTuple):
    limit: int
    log_files: int
    connections: int

    def refusal(self, connections: int, *, for_nodes: bool) -> str | None:
        """Why no further connection can be taken; None when one can."""
        if connections < self.connections + (FOR_NODES if for_nodes else 0):
            return None
        return (
            f"there are {connections}, which is all that a limit of {self.limit} open files has room for beside the "
            "logs. Raise it (ulimit -n, LimitNOFILE= of a service), or see connections.max.idle.ms"
        )


# Who gets which share of the limit, and why: design/0021.
def share_out(limit: int) -> Shares:
    """Half of what the node does not need itself for each."""
    rest = max(limit - max(_LEAST_OWN, min(limit // 10, _MOST_OWN)), 2)
    return Shares(limit, rest // 2, rest - rest // 2)


def raise_limit() -> int:
    """As many descriptors as the system lets this process have: the usual soft limit is small."""
    try:
        import resource
    except ImportError:
        return _UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else _UNLIMITED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            logger.warning("the limit of open files stays at %d", soft)
        else:
            return wanted
    return soft if soft != resource.RLIM_INFINITY else _UNLIMITED
