"""How the descriptors of a process are shared out."""

import pytest

from ottla.node.descriptors import FOR_NODES, share_out


@pytest.mark.parametrize("limit", [60, 200, 1024, 20_000, 1 << 20])
def test_logs_and_clients_get_equal_shares_of_what_the_node_does_not_need_itself(limit: int) -> None:
    shares = share_out(limit)
    own = limit - shares.log_files - shares.connections
    assert own >= 48 > FOR_NODES
    assert own <= max(48, limit // 10)
    assert 0 <= shares.connections - shares.log_files <= 1
    assert shares.log_files > 0


def test_a_refusal_says_what_is_short_and_what_to_do() -> None:
    shares = share_out(200)
    assert shares.refusal(75, for_nodes=False) is None
    refusal = shares.refusal(76, for_nodes=False)
    assert refusal is not None
    assert "76" in refusal
    assert "limit of 200 open files" in refusal
    assert "ulimit -n" in refusal


def test_other_nodes_are_taken_when_clients_are_not() -> None:
    shares = share_out(200)
    assert shares.refusal(76, for_nodes=True) is None
    assert shares.refusal(76 + FOR_NODES, for_nodes=True) is not None
