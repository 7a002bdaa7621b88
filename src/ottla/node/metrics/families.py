"""Every metric, declared once: its name, its kind, its labels and one sentence.

Owns: the names. Where dashboards for Kafka have one already, it is that of the JMX exporter's usual rules or of the
Kafka exporter; ottla's own begin with `ottla_`. Never knows: where a number comes from. Invariant: names are unique.
"""

from typing import NamedTuple


class Family(NamedTuple):
    """One metric with all its series."""

    name: str
    kind: str
    """What Prometheus calls it: counter, gauge or histogram."""
    help: str
    labels: tuple[str, ...] = ()


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, "gauge", text, labels)


_TOPIC = "kafka_server_brokertopicmetrics_"
_BOTH = " A series without a topic is the sum of all."
MESSAGES_IN = _counter(f"{_TOPIC}messagesin_total", f"Messages that were written.{_BOTH}", "topic")
BYTES_IN = _counter(f"{_TOPIC}bytesin_total", f"Bytes of batches that were written.{_BOTH}", "topic")
BYTES_OUT = _counter(f"{_TOPIC}bytesout_total", f"Bytes of batches that clients read.{_BOTH}", "topic")
MESSAGES_OUT = _counter(
    "ottla_topic_messagesout_total",
    "Messages that clients read: the bytes they read, divided by what a message of the topic takes on average.",
    "topic",
)
PRODUCES = _counter(
    f"{_TOPIC}totalproducerequests_total", f"Batches that producers sent, one for each partition.{_BOTH}", "topic"
)
FETCHES = _counter(
    f"{_TOPIC}totalfetchrequests_total",
    f"Partitions that fetches of clients and followers looked into.{_BOTH}",
    "topic",
)
FAILED_PRODUCES = _counter(f"{_TOPIC}failedproducerequests_total", f"Batches that were refused.{_BOTH}", "topic")
FAILED_FETCHES = _counter(f"{_TOPIC}failedfetchrequests_total", f"Reads that were refused.{_BOTH}", "topic")
REPLICATION_IN = _counter(f"{_TOPIC}replicationbytesin_total", "Bytes that this broker took as a follower.")
REPLICATION_OUT = _counter(f"{_TOPIC}replicationbytesout_total", "Bytes that followers took from this broker.")

_REQUEST = "kafka_network_requestmetrics_"
REQUESTS = _counter(f"{_REQUEST}requests_total", "Requests that were answered, by API.", "request")
ERRORS = _counter(
    f"{_REQUEST}errors_total",
    "Errors that were answered, by API and by Kafka's name of the error: one for each partition, topic or group that "
    "was refused. What went well is not counted.",
    "request",
    "error",
)
TOTAL_TIME = Family(
    f"{_REQUEST}totaltimems",
    "histogram",
    "Milliseconds from the arrival of a request to its answer, waiting for records or members included.",
    ("request",),
)
QUEUE_TIME = Family(
    f"{_REQUEST}requestqueuetimems",
    "histogram",
    "Milliseconds that a request waited for others before the work on it began.",
    ("request",),
)
IN_PROGRESS = _gauge("kafka_network_requestchannel_requestqueuesize", "Requests that are being worked on.")
WAITING = _gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Requests that wait for records, replicas or time.",
    "delayedOperation",
)
CONNECTIONS = _gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.", "listener")
CONNECTIONS_MADE = _counter(
    "kafka_server_socket_server_metrics_connection_creation_total", "Connections that were accepted.", "listener"
)

_REPLICAS = "kafka_server_replicamanager_"
PARTITION_COUNT = _gauge(f"{_REPLICAS}partitioncount", "Replicas that lie on this broker.")
LEADER_COUNT = _gauge(f"{_REPLICAS}leadercount", "Partitions that this broker leads.")
OFFLINE_REPLICAS = _gauge(f"{_REPLICAS}offlinereplicacount", "Replicas here whose directory is offline.")
UNDER_REPLICATED = _gauge(
    f"{_REPLICAS}underreplicatedpartitions", "Partitions led here that miss replicas in their in-sync set."
)
UNDER_MIN_ISR = _gauge(
    f"{_REPLICAS}underminisrpartitioncount", "Partitions led here with fewer replicas in sync than min.insync.replicas."
)
AT_MIN_ISR = _gauge(f"{_REPLICAS}atminisrpartitioncount", "Partitions led here with just min.insync.replicas in sync.")
REASSIGNING = _gauge(f"{_REPLICAS}reassigningpartitions", "Partitions led here that are being moved.")
PRODUCER_IDS = _gauge(f"{_REPLICAS}produceridcount", "Producers that the logs here remember.")
ISR_SHRINKS = _counter(f"{_REPLICAS}isrshrinks_total", "Times a replica left the in-sync set of a partition led here.")
ISR_EXPANDS = _counter(f"{_REPLICAS}isrexpands_total", "Times a replica joined the in-sync set of one led here.")

_PARTITION = ("topic", "partition")
LOG_SIZE = _gauge("kafka_log_log_size", "Bytes of a log on the disk.", *_PARTITION)
LOG_START = _gauge("kafka_log_log_logstartoffset", "The first offset of a log.", *_PARTITION)
LOG_END = _gauge("kafka_log_log_logendoffset", "The offset that a log's next record gets.", *_PARTITION)
LOG_SEGMENTS = _gauge("kafka_log_log_numlogsegments", "Segments of a log.", *_PARTITION)
FLUSH_TIME = Family(
    "kafka_log_logflushstats_logflushrateandtimems", "histogram", "Milliseconds that flushing a log to the disk took."
)
OFFLINE_DIRECTORIES = _gauge("kafka_log_logmanager_offlinelogdirectorycount", "Data directories that failed.")
DIRECTORY_OFFLINE = _gauge(
    "kafka_log_logmanager_logdirectoryoffline", "1 for a data directory that failed.", "logDirectory"
)
DIRECTORY_TOTAL = _gauge("ottla_log_directory_total_bytes", "Size of the disk under a data directory.", "logDirectory")
DIRECTORY_FREE = _gauge("ottla_log_directory_free_bytes", "Room left under a data directory.", "logDirectory")
LOG_FILES = _gauge("ottla_log_open_files", "Log files that are open.")
MOST_LOG_FILES = _gauge("ottla_log_max_open_files", "Log files that may be open, as the limit of open files has it.")
RECLAIMED_FILES = _counter("ottla_log_reclaimed_files_total", "Log files that were closed to keep within that.")

_LED = "kafka_cluster_partition_"
PARTITION_UNDER_REPLICATED = _gauge(
    f"{_LED}underreplicated", "1 where a partition led here misses replicas in its in-sync set.", *_PARTITION
)
PARTITION_UNDER_MIN = _gauge(
    f"{_LED}underminisr", "1 where it has fewer in sync than min.insync.replicas.", *_PARTITION
)
PARTITION_AT_MIN = _gauge(f"{_LED}atminisr", "1 where it has just min.insync.replicas in sync.", *_PARTITION)

_SEEN = "kafka_topic_partition_"
TOPIC_PARTITIONS = _gauge("kafka_topic_partitions", "Partitions of a topic; told by the leader of the first.", "topic")
CURRENT_OFFSET = _gauge(f"{_SEEN}current_offset", "How far a partition led here is committed.", *_PARTITION)
OLDEST_OFFSET = _gauge(f"{_SEEN}oldest_offset", "The first offset of a partition led here.", *_PARTITION)
REPLICAS = _gauge(f"{_SEEN}replicas", "Replicas of a partition led here.", *_PARTITION)
IN_SYNC = _gauge(f"{_SEEN}in_sync_replica", "Replicas in sync of a partition led here.", *_PARTITION)
LEADER = _gauge(f"{_SEEN}leader", "The id of the broker that leads a partition: this one.", *_PARTITION)
PREFERRED = _gauge(f"{_SEEN}leader_is_preferred", "1 where that is the first of its replicas.", *_PARTITION)
UNDER_REPLICATED_PARTITION = _gauge(
    f"{_SEEN}under_replicated_partition", "1 where a partition led here misses replicas in sync.", *_PARTITION
)
REPLICA_LAG = _gauge(
    "ottla_replica_lag", "Messages that a follower of a partition led here lacks.", *_PARTITION, "replica"
)

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
GROUP_COUNT = _gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates.")
GROUP_OFFSETS = _gauge(f"{_GROUPS}numoffsets", "Committed offsets that this broker keeps.")
GROUPS_BY_STATE = {
    state: _gauge(f"{_GROUPS}numgroups{state}", f"Groups coordinated here in the state {text}.")
    for state, text in {
        "empty": "Empty",
        "preparingrebalance": "PreparingRebalance",
        "completingrebalance": "CompletingRebalance",
        "stable": "Stable",
        "dead": "Dead",
    }.items()
}
REBALANCES = _counter("ottla_group_rebalances_total", "Generations that began in groups coordinated here.")
GROUP_MEMBERS = _gauge("kafka_consumergroup_members", "Members of a group coordinated here.", "consumergroup")
_GROUP_PARTITION = ("consumergroup", *_PARTITION)
GROUP_OFFSET = _gauge("kafka_consumergroup_current_offset", "What a group has committed.", *_GROUP_PARTITION)
GROUP_LAG = _gauge("kafka_consumergroup_lag", "Messages behind what a group has committed.", *_GROUP_PARTITION)
GROUP_OFFSET_SUM = _gauge(
    "kafka_consumergroup_current_offset_sum", "What a group has committed in a topic.", "consumergroup", "topic"
)
GROUP_LAG_SUM = _gauge("kafka_consumergroup_lag_sum", "Messages behind that in a topic.", "consumergroup", "topic")
TRANSACTIONS = _gauge("ottla_transactions", "Transactional ids that this broker coordinates, by state.", "state")

BROKER_STATE = _gauge(
    "kafka_server_kafkaserver_brokerstate", "1 starting, 2 fenced, 3 running, 6 leaving; as Kafka numbers them."
)
METADATA_OFFSET = _gauge(
    "kafka_server_brokermetadatametrics_last_applied_record_offset", "How far this node has applied the metadata."
)

_CONTROLLER = "kafka_controller_kafkacontroller_"
_ACTIVE = " 0 on controllers that are not active."
ACTIVE_CONTROLLER = _gauge(f"{_CONTROLLER}activecontrollercount", "1 on the controller that decides.")
OFFLINE_PARTITIONS = _gauge(f"{_CONTROLLER}offlinepartitionscount", f"Partitions without a leader.{_ACTIVE}")
IMBALANCE = _gauge(
    f"{_CONTROLLER}preferredreplicaimbalancecount", f"Partitions not led by the first of their replicas.{_ACTIVE}"
)
TOPIC_COUNT = _gauge(f"{_CONTROLLER}globaltopiccount", f"Topics of the cluster.{_ACTIVE}")
GLOBAL_PARTITIONS = _gauge(f"{_CONTROLLER}globalpartitioncount", f"Partitions of the cluster.{_ACTIVE}")
ACTIVE_BROKERS = _gauge(f"{_CONTROLLER}activebrokercount", f"Brokers that serve.{_ACTIVE}")
FENCED_BROKERS = _gauge(f"{_CONTROLLER}fencedbrokercount", f"Brokers that are registered and fenced.{_ACTIVE}")
COMMITTED_OFFSET = _gauge(
    f"{_CONTROLLER}lastcommittedrecordoffset", "The offset of the last committed metadata, as known here."
)
BROKERS = _gauge("kafka_brokers", "Brokers that serve, as the active controller counts them; told by it alone.")
ELECTIONS = _counter("ottla_controller_elections_total", "Partitions that got another leader from this controller.")
UNCLEAN_ELECTIONS = _counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total", "Of those, elections that may have lost records."
)

_RAFT = "kafka_server_raftmetrics_"
RAFT_STATE = _gauge(f"{_RAFT}current_state", "1 for what this node is to the quorum.", "current_state")
RAFT_LEADER = _gauge(f"{_RAFT}current_leader", "The id of the quorum's leader; -1 while there is none.")
RAFT_EPOCH = _gauge(f"{_RAFT}current_epoch", "The epoch of the quorum.")
RAFT_WATERMARK = _gauge(f"{_RAFT}high_watermark", "Up to where the quorum agrees; -1 while that is not known.")
RAFT_END = _gauge(f"{_RAFT}log_end_offset", "Where this node's copy of the metadata log ends.")
QUORUM_LAG = _gauge("ottla_quorum_lag", "Metadata records that a replica lacks; told by the leader.", "replica", "role")
QUORUM_AGE = _gauge(
    "ottla_quorum_seconds_since_fetch",
    "How long ago a replica last asked for metadata; told by the leader.",
    "replica",
    "role",
)

INFO = _gauge("ottla_info", "Always 1; the labels tell which node and release this is.", "node", "cluster", "version")
LOOP_CPU = _counter(
    "ottla_event_loop_cpu_seconds_total", "Processor time of the event loop's thread: 1 a second is busy."
)
LOOP_TURN = _gauge("ottla_event_loop_turn_seconds", "How long the event loop took for its turn before this answer.")
CPU = _counter("process_cpu_seconds_total", "Processor time of the process.")
RESIDENT = _gauge("process_resident_memory_bytes", "Memory that the process holds.")
VIRTUAL = _gauge("process_virtual_memory_bytes", "Address space of the process.")
DESCRIPTORS = _gauge("process_open_fds", "Open descriptors.")
MOST_DESCRIPTORS = _gauge("process_max_fds", "Descriptors that may be open.")
STARTED = _gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")

GROUPED: dict[str, tuple[Family, ...]] = {
    "Topics": (
        MESSAGES_IN,
        BYTES_IN,
        BYTES_OUT,
        MESSAGES_OUT,
        PRODUCES,
        FETCHES,
        FAILED_PRODUCES,
        FAILED_FETCHES,
        REPLICATION_IN,
        REPLICATION_OUT,
    ),
    "Requests and connections": (
        REQUESTS,
        ERRORS,
        TOTAL_TIME,
        QUEUE_TIME,
        IN_PROGRESS,
        WAITING,
        CONNECTIONS,
        CONNECTIONS_MADE,
    ),
    "Replicas of a broker": (
        PARTITION_COUNT,
        LEADER_COUNT,
        OFFLINE_REPLICAS,
        UNDER_REPLICATED,
        UNDER_MIN_ISR,
        AT_MIN_ISR,
        REASSIGNING,
        PRODUCER_IDS,
        ISR_SHRINKS,
        ISR_EXPANDS,
    ),
    "Logs": (
        LOG_SIZE,
        LOG_START,
        LOG_END,
        LOG_SEGMENTS,
        FLUSH_TIME,
        OFFLINE_DIRECTORIES,
        DIRECTORY_OFFLINE,
        DIRECTORY_TOTAL,
        DIRECTORY_FREE,
        LOG_FILES,
        MOST_LOG_FILES,
        RECLAIMED_FILES,
    ),
    "Partitions, told by their leader": (
        PARTITION_UNDER_REPLICATED,
        PARTITION_UNDER_MIN,
        PARTITION_AT_MIN,
        TOPIC_PARTITIONS,
        CURRENT_OFFSET,
        OLDEST_OFFSET,
        REPLICAS,
        IN_SYNC,
        LEADER,
        PREFERRED,
        UNDER_REPLICATED_PARTITION,
        REPLICA_LAG,
    ),
    "Groups and transactions, told by their coordinator": (
        GROUP_COUNT,
        GROUP_OFFSETS,
        *GROUPS_BY_STATE.values(),
        REBALANCES,
        GROUP_MEMBERS,
        GROUP_OFFSET,
        GROUP_LAG,
        GROUP_OFFSET_SUM,
        GROUP_LAG_SUM,
        TRANSACTIONS,
    ),
    "The controller": (
        ACTIVE_CONTROLLER,
        OFFLINE_PARTITIONS,
        IMBALANCE,
        TOPIC_COUNT,
        GLOBAL_PARTITIONS,
        ACTIVE_BROKERS,
        FENCED_BROKERS,
        COMMITTED_OFFSET,
        BROKERS,
        ELECTIONS,
        UNCLEAN_ELECTIONS,
    ),
    "The quorum": (RAFT_STATE, RAFT_LEADER, RAFT_EPOCH, RAFT_WATERMARK, RAFT_END, QUORUM_LAG, QUORUM_AGE),
    "The node": (
        BROKER_STATE,
        METADATA_OFFSET,
        INFO,
        LOOP_CPU,
        LOOP_TURN,
        CPU,
        RESIDENT,
        VIRTUAL,
        DESCRIPTORS,
        MOST_DESCRIPTORS,
        STARTED,
    ),
}
"""All of them under the headings of the reference."""
