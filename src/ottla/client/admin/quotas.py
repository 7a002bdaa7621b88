"""Quotas of clients: how much users, client ids and addresses may send, read and ask for.

Owns: the requests about them, and results as plain values. Never knows: what the names of quotas mean. ottla's own
brokers have none and say so (`UnsupportedRequest`); Kafka's have.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.client.admin.part import Outcome, Part
from ottla.client.errors import BrokerError, known_code
from ottla.wire.messages import alter_client_quotas as alter
from ottla.wire.messages import describe_client_quotas as describe

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""What a quota can be for."""

QuotaEntity: TypeAlias = Mapping[str, str | None]
"""Whom a quota is for: a name for each kind it goes by, None for whoever has no quota of their own."""


class ClientQuota(NamedTuple):
    """The quotas of one entity."""

    entity: dict[str, str | None]
    values: dict[str, float]


class _Match(IntEnum):
    EXACT = 0
    DEFAULT = 1


class QuotaAdmin(Part):
    """Quotas of clients."""

    async def client_quotas(self, entity: QuotaEntity | None = None, seconds: float | None = None) -> list[ClientQuota]:
        """Every quota, or those whose entity has these names among its own."""
        deadline = self._deadline(seconds)
        components = [
            describe.ComponentData(kind, _Match.DEFAULT if name is None else _Match.EXACT, name)
            for kind, name in (entity or {}).items()
        ]
        request = describe.DescribeClientQuotasRequest(components)

        async def ask() -> list[ClientQuota]:
            answer = await self._cluster.ask_any(request, describe.DescribeClientQuotasResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, "the quotas of clients", answer.error_message)
            return [
                ClientQuota(
                    {each.entity_type: each.entity_name for each in entry.entity},
                    {each.key: each.value for each in entry.values},
                )
                for entry in answer.entries or ()
            ]

        return await self._cluster.retry(ask, deadline)

    async def alter_client_quotas(
        self,
        entity: QuotaEntity,
        values: Mapping[str, float],
        remove: Iterable[str] = (),
        seconds: float | None = None,
    ) -> Outcome:
        """Set some quotas of an entity and take others away."""
        deadline = self._deadline(seconds)
        changes = [alter.OpData(name, value) for name, value in values.items()]
        changes += [alter.OpData(name, 0.0, remove=True) for name in remove]
        whom = [alter.EntityData(kind, name) for kind, name in entity.items()]
        request = alter.AlterClientQuotasRequest([alter.EntryData(whom, changes)])

        async def ask() -> Outcome:
            answer = await self._cluster.ask_controller(request, alter.AlterClientQuotasResponse, deadline)
            (entry,) = answer.entries
            error = known_code(entry.error_code)
            self._require_controller([error])
            return Outcome(error, entry.error_message if error != ErrorCode.NONE else None)

        return await self._cluster.retry(ask, deadline)
