"""ListGroups, v0 to v5: the groups this broker coordinates, by state and type where asked.

KIP-518 (v4: by state), KIP-848 (v5: by type).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.classic import CONSUMER, ClassicGroup
from ottla.groups.modern import ConsumerGroup
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker

CLASSIC = "classic"


async def handle(
    broker: "Broker", request: ListGroupsRequest, context: Context
) -> "ListGroupsResponse | Future[ListGroupsResponse]":
    states: set[str] = set()
    types: set[str] = set()
    for asked, wanted in ((request.states_filter, states), (request.types_filter, types)):
        async for some in in_turns(broker, asked):
            wanted.update(text.strip().lower() for text in some)
    known: list[ClassicGroup | ConsumerGroup] = []
    for shard in broker.groups.shards():
        if isinstance(shard, ErrorCode):
            return ListGroupsResponse(error_code=shard)
        known += shard.machine.groups.values()
    groups: list[ListedGroup] = []
    async for few in in_turns(broker, known):
        for group in few:
            kind, protocol = (CONSUMER, CONSUMER)
            if isinstance(group, ClassicGroup):
                kind, protocol = CLASSIC, group.protocol_type or ""
            state = group.state.value
            if (not states or state.lower() in states) and (not types or kind in types):
                groups.append(ListedGroup(group.group_id, protocol, state, kind))
    return broker.groups.settled(
        None, ListGroupsResponse(groups=groups), lambda error: ListGroupsResponse(error_code=error)
    )
