"""DeleteGroups, v0 to v2: groups without members, with their offsets.

KIP-229.
"""

import asyncio
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(Lists(("groups_names",), ("results",)))
async def handle(broker: "Broker", request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        answer = _delete(broker, group_id)
        result = await answer if isinstance(answer, asyncio.Future) else answer
        assert isinstance(result, DeletableGroupResult)
        results.append(result)
    return DeleteGroupsResponse(results=results)


def _delete(broker: "Broker", group_id: str) -> Answer:
    shard = broker.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return DeletableGroupResult(group_id, shard)
    decision = shard.machine.decide_delete(group_id)
    return shard.carry_out(decision, lambda error: DeletableGroupResult(group_id, error))
