"""ListGroups, v0 to v5: the groups this broker coordinates, by state and type where asked."""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.classic import CONSUMER, ClassicGroup
from ottla.net.dispatch import Context
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker

CLASSIC = "classic"


def handle(
    broker: "Broker", request: ListGroupsRequest, context: Context
) -> "ListGroupsResponse | Future[ListGroupsResponse]":
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    groups: list[ListedGroup] = []
    for shard in broker.groups.shards():
        if isinstance(shard, ErrorCode):
            return ListGroupsResponse(error_code=shard)
        for group in shard.machine.groups.values():
            kind, protocol = (CONSUMER, CONSUMER)
            if isinstance(group, ClassicGroup):
                kind, protocol = CLASSIC, group.protocol_type or ""
            state = group.state.value
            if (not states or state.lower() in states) and (not types or kind in types):
                groups.append(ListedGroup(group.group_id, protocol, state, kind))
    return broker.groups.settled(
        None, ListGroupsResponse(groups=groups), lambda error: ListGroupsResponse(error_code=error)
    )
