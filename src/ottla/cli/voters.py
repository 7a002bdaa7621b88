"""Who shall vote in the quorum: a controller as a settings file or the command line names it.

Owns: putting together the number, the directory and the listeners that make a voter. Never knows: requests, printing.
Invariant: a voter is its number and its directory, so neither is ever guessed: the file's own directory tells it, or
the quorum, which sees the node follow its log.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.base.vocabulary import NO_TOPIC_ID, identity_bytes
from ottla.cli.failures import Failure
from ottla.client.address import Address
from ottla.client.admin.brokers import Quorum, QuorumReplica


class NewVoter(NamedTuple):
    """A controller that is to vote."""

    node_id: int
    directory_id: bytes
    listeners: Mapping[str, Address]


def voter_of_file(path: str) -> NewVoter:
    """The node of a settings file, whose data directory is on this machine."""
    from ottla.log.properties import UnusableDirectory, read_directory_properties
    from ottla.node.formatting import metadata_directory
    from ottla.node.listeners import BadListener, parse_listeners
    from ottla.node.options import Options, StartFailure, resolve
    from ottla.runtime.disk import RealDisk

    try:
        values = resolve(Options(config=path))
        directory = metadata_directory(values)
        own = read_directory_properties(RealDisk(), directory)
        listening = parse_listeners(values.listing("listeners"), "listeners")
    except (StartFailure, UnusableDirectory, BadListener) as problem:
        raise Failure(str(problem)) from None
    if own is None or not own.directory_id:
        raise Failure(f"{directory} is not formatted; run 'ottla format --config {path}' and start the node first")
    names = {name.upper() for name in values.listing("controller.listener.names")}
    found = {
        each.name: Address(each.host or socket.gethostname(), each.port) for each in listening if each.name in names
    }
    if not found:
        raise Failure(f"{path} names no listener for controllers; only a node with the role controller can vote")
    return NewVoter(values.integer("node.id"), own.directory_id, found)


def voter_named(node_id: int, directory: str | None, listeners: Sequence[str], quorum: Quorum) -> NewVoter:
    """The node that the quorum sees as an observer, or that the command line describes whole."""
    from ottla.node.listeners import BadListener, parse_listeners

    try:
        found = {each.name: Address(each.host, each.port) for each in parse_listeners(listeners, "--listener")}
    except BadListener as problem:
        raise Failure(str(problem).rstrip(".")) from None
    if directory is not None:
        return NewVoter(node_id, directory_bytes(directory), found)
    seen = [each for each in quorum.observers if each.node_id == node_id and each.directory_id != NO_TOPIC_ID]
    if len(seen) != 1:
        raise Failure(
            f"the quorum does not see node {node_id} follow its log; start the node, or give the id of its directory "
            "with --directory-id (it is in the meta.properties of its metadata directory)"
        )
    return NewVoter(node_id, seen[0].directory_id, found)


def voter_to_remove(node_id: int, directory: str | None, quorum: Quorum) -> QuorumReplica:
    """The voter of that number, and of that directory if one is named."""
    wanted = None if directory is None else directory_bytes(directory)
    found = [
        each for each in quorum.voters if each.node_id == node_id and (wanted is None or each.directory_id == wanted)
    ]
    if not found:
        raise Failure(f"node {node_id} does not vote; 'ottla cluster quorum' shows who does")
    if len(found) > 1:
        raise Failure(f"node {node_id} votes with {len(found)} directories; name the one with --directory-id")
    return found[0]


def directory_bytes(text: str) -> bytes:
    try:
        return identity_bytes(text)
    except ValueError:
        raise Failure(f"{text!r} is no id of a directory; 'ottla cluster quorum' shows those there are") from None
