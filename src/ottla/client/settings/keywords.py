"""The keyword form of the settings, for type checkers: names with underscores.

Owns: nothing but types; a test holds them to the tables. None leaves a setting at its default.
"""

from collections.abc import Sequence
from typing import TypedDict


class CommonKeywords(TypedDict, total=False):
    """What every client takes."""

    bootstrap_servers: str | Sequence[str] | None
    client_id: str | None
    client_dns_lookup: str | None
    request_timeout_ms: int | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    reconnect_backoff_ms: int | None
    reconnect_backoff_max_ms: int | None
    socket_connection_setup_timeout_ms: int | None
    socket_connection_setup_timeout_max_ms: int | None
    connections_max_idle_ms: int | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    metadata_max_age_ms: int | None
    metadata_recovery_strategy: str | None
    metadata_recovery_rebootstrap_trigger_ms: int | None
    metric_reporters: str | Sequence[str] | None
    metrics_num_samples: int | None
    metrics_sample_window_ms: int | None
    metrics_recording_level: str | None
    enable_metrics_push: bool | None
    config_providers: str | Sequence[str] | None
    security_protocol: str | None
    security_providers: str | None
    sasl_mechanism: str | None
    sasl_jaas_config: str | None
    sasl_oauthbearer_header_urlencode: bool | None
    ssl_keystore_location: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_cipher_suites: str | Sequence[str] | None
    sasl_client_callback_handler_class: str | None
    sasl_login_callback_handler_class: str | None
    sasl_login_class: str | None
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_refresh_buffer_seconds: int | None
    sasl_login_refresh_min_period_seconds: int | None
    sasl_login_refresh_window_factor: float | None
    sasl_login_refresh_window_jitter: float | None
    sasl_login_retry_backoff_ms: int | None
    sasl_login_retry_backoff_max_ms: int | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_kinit_cmd: str | None
    sasl_kerberos_min_time_before_relogin: int | None
    sasl_kerberos_ticket_renew_jitter: float | None
    sasl_kerberos_ticket_renew_window_factor: float | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int | None
    sasl_oauthbearer_expected_audience: str | Sequence[str] | None
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_clock_skew_seconds: int | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_scope_claim_name: str | None
    sasl_oauthbearer_sub_claim_name: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_assertion_algorithm: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_jti_include: bool | None
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_oauthbearer_jwt_validator_class: str | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | None
    ssl_key_password: str | None
    ssl_truststore_location: str | None
    ssl_truststore_type: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_enabled_protocols: str | Sequence[str] | None
    ssl_protocol: str | None
    ssl_engine_factory_class: str | None
    ssl_keymanager_algorithm: str | None
    ssl_trustmanager_algorithm: str | None
    ssl_provider: str | None
    ssl_secure_random_implementation: str | None


class ProducerKeywords(CommonKeywords, total=False):
    """What a producer takes beside that."""

    acks: int | str | None
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int | None
    transaction_two_phase_commit_enable: bool | None
    key_serializer: object | None
    value_serializer: object | None
    interceptor_classes: str | Sequence[object] | None
    partitioner_class: object | None
    partitioner_ignore_keys: bool | None
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: int | None
    batch_size: int | None
    linger_ms: int | None
    buffer_memory: int | None
    max_block_ms: int | None
    max_request_size: int | None
    max_in_flight_requests_per_connection: int | None
    delivery_timeout_ms: int | None
    retries: int | None
    compression_type: str | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    metadata_max_idle_ms: int | None


class ConsumerKeywords(CommonKeywords, total=False):
    """What a consumer takes beside that."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[object] | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    max_poll_records: int | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int | None
    auto_offset_reset: str | None
    isolation_level: str | None
    key_deserializer: object | None
    value_deserializer: object | None
    interceptor_classes: str | Sequence[object] | None
    fetch_min_bytes: int | None
    fetch_max_wait_ms: int | None
    fetch_max_bytes: int | None
    max_partition_fetch_bytes: int | None
    client_rack: str | None
    check_crcs: bool | None
    allow_auto_create_topics: bool | None
    exclude_internal_topics: bool | None
    default_api_timeout_ms: int | None
    share_acknowledgement_mode: str | None
    share_acquire_mode: str | None


class AdminKeywords(CommonKeywords, total=False):
    """What an admin client takes beside that."""

    bootstrap_controllers: str | Sequence[str] | None
    default_api_timeout_ms: int | None
    retries: int | None
