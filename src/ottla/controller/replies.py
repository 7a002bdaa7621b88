"""Replies that refuse a whole request, item by item, when what was decided could not be stored.

Owns: which items a request names. Never knows: why it is refused.
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
