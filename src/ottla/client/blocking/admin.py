"""`ottla.blocking.Admin`: everything of `ottla.Admin`, waited for."""

from collections.abc import Mapping
from typing import Unpack

from ottla.client.admin.admin import Admin as AsyncAdmin
from ottla.client.blocking.face import Blocked, Face
from ottla.client.settings import AdminKeywords


class Admin(Face[AsyncAdmin]):
    """As `ottla.Admin`, for any number of threads."""

    _what = "admin client"

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: Unpack[AdminKeywords]) -> None:
        super().__init__(lambda: AsyncAdmin(settings, **keywords))

    def close(self) -> None:
        """End the connections; does nothing the second time."""
        self._end(self._inner.close)

    topics = Blocked(AsyncAdmin.topics)
    describe_topics = Blocked(AsyncAdmin.describe_topics)
    eligible_leaders = Blocked(AsyncAdmin.eligible_leaders)
    create_topics = Blocked(AsyncAdmin.create_topics)
    delete_topics = Blocked(AsyncAdmin.delete_topics)
    create_partitions = Blocked(AsyncAdmin.create_partitions)
    describe_configs = Blocked(AsyncAdmin.describe_configs)
    topic_setting = Blocked(AsyncAdmin.topic_setting)
    alter_configs = Blocked(AsyncAdmin.alter_configs)
    config_resources = Blocked(AsyncAdmin.config_resources)
    offsets = Blocked(AsyncAdmin.offsets)
    delete_records = Blocked(AsyncAdmin.delete_records)
    sizes = Blocked(AsyncAdmin.sizes)

    describe_cluster = Blocked(AsyncAdmin.describe_cluster)
    describe_quorum = Blocked(AsyncAdmin.describe_quorum)
    elect_leaders = Blocked(AsyncAdmin.elect_leaders)
    reassign = Blocked(AsyncAdmin.reassign)
    reassignments = Blocked(AsyncAdmin.reassignments)
    replica_sizes = Blocked(AsyncAdmin.replica_sizes)
    throttle = Blocked(AsyncAdmin.throttle)
    unthrottle = Blocked(AsyncAdmin.unthrottle)

    groups = Blocked(AsyncAdmin.groups)
    describe_groups = Blocked(AsyncAdmin.describe_groups)
    delete_groups = Blocked(AsyncAdmin.delete_groups)
    remove_members = Blocked(AsyncAdmin.remove_members)
    group_offsets = Blocked(AsyncAdmin.group_offsets)
    alter_group_offsets = Blocked(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = Blocked(AsyncAdmin.delete_group_offsets)

    transactions = Blocked(AsyncAdmin.transactions)
    describe_transactions = Blocked(AsyncAdmin.describe_transactions)
    fence_producers = Blocked(AsyncAdmin.fence_producers)
    producers = Blocked(AsyncAdmin.producers)
    abort_transaction = Blocked(AsyncAdmin.abort_transaction)

    log_directories = Blocked(AsyncAdmin.log_directories)
    features = Blocked(AsyncAdmin.features)
    update_features = Blocked(AsyncAdmin.update_features)
    unregister_broker = Blocked(AsyncAdmin.unregister_broker)
    add_voter = Blocked(AsyncAdmin.add_voter)
    remove_voter = Blocked(AsyncAdmin.remove_voter)

    client_quotas = Blocked(AsyncAdmin.client_quotas)
    alter_client_quotas = Blocked(AsyncAdmin.alter_client_quotas)
