"""Replies that need no decision: refusals of a whole request, item by item.

Owns: which items a request names. Never knows: why a request is refused.
"""

from ottla.metadata.configs import refused_resource
from ottla.metadata.decision import Refusal
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def create_topics(request: CreateTopicsRequest, refusal: Refusal) -> CreateTopicsResponse:
    error, message = refusal
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in request.topics
        ]
    )


def delete_topics(request: DeleteTopicsRequest, refusal: Refusal) -> DeleteTopicsResponse:
    error, message = refusal
    asked = [(topic.name, topic.topic_id) for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[
            *(DeletableTopicResult(name=name, error_code=error, error_message=message) for name in request.topic_names),
            *(
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
                for name, topic_id in asked
            ),
        ]
    )


def create_partitions(request: CreatePartitionsRequest, refusal: Refusal) -> CreatePartitionsResponse:
    error, message = refusal
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
            for topic in request.topics
        ]
    )


def alter_configs(request: full.AlterConfigsRequest, refusal: Refusal) -> full.AlterConfigsResponse:
    return full.AlterConfigsResponse(
        responses=[
            refused_resource(
                full.AlterConfigsResourceResponse, (resource.resource_type, resource.resource_name), refusal
            )
            for resource in request.resources
        ]
    )


def incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, refusal: Refusal
) -> incremental.IncrementalAlterConfigsResponse:
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            refused_resource(
                incremental.AlterConfigsResourceResponse, (resource.resource_type, resource.resource_name), refusal
            )
            for resource in request.resources
        ]
    )


def elect_leaders(request: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    """The oldest version knows no code for the whole, so each partition has it too."""
    error, message = refusal
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(topic.topic, [PartitionResult(number, error, message) for number in topic.partitions])
            for topic in request.topic_partitions or ()
        ],
    )
