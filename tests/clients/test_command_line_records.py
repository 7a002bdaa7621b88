"""`ottla produce` and `ottla consume`, on ottla and on a real Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from kit.brokers.command_line import Ottla
from kit.brokers.processes import until
from ottla import blocking
from ottla.client.consumer.deserializers import Avro


def until_committed(ottla: Ottla, topic: str, lines: list[str]) -> None:
    """A transaction has ended when that is decided; the partitions hear of it a moment later."""
    shown = ("consume", topic, "-e", "--committed")
    until(lambda: ottla.lines(*shown) == lines, "readers of committed records see the end of the transaction")


def test_lines_go_in_and_come_out(ottla: Ottla, made: str) -> None:
    sent = ottla.attempt("produce", made, stdin=b"one\ntwo\nthree")
    assert sent.returncode == 0
    assert sent.stdout == b""
    assert sent.stderr.startswith(f"sent 3 records (47 B) to {made!r} in ".encode())
    assert sorted(ottla.lines("consume", made, "--until-end")) == ["one", "three", "two"]
    assert ottla.attempt("produce", made, "--quiet", stdin=b"four").stderr == b""


def test_keys_headers_nulls_and_arbitrary_bytes_survive(ottla: Ottla, made: str) -> None:
    lines = b"ann:\xff\x00\nbob:\ncarl:a:b\n"
    options = ("--key-separator", ":", "--null-value", "", "--header", "from=test", "--header", "n=1")
    ottla("produce", made, *options, "--partition", "0", stdin=lines)
    shown = ottla("consume", made, "-e", "--keys", "--headers", "--offsets", "--separator", "|", "--null-value", "-")
    assert shown == b"0:0|from=test,n=1|ann|\xff\x00\n0:1|from=test,n=1|bob|-\n0:2|from=test,n=1|carl|a:b\n"
    records = ottla.records(made)
    assert [(record["key"], record["value"]) for record in records] == [
        ("ann", {"base64": "/wA="}),
        ("bob", None),
        ("carl", "a:b"),
    ]
    assert records[0]["headers"] == [["from", "test"], ["n", "1"]]


def test_a_topic_can_be_copied_as_json(ottla: Ottla, made: str) -> None:
    copy = f"{made}-copy"
    ottla("topic", "create", copy, "--partitions", "1")
    ottla("produce", made, "-K", "=", "-H", "h=\u00e9", stdin="a=\u00e9\nb=\u20ac\n".encode() + b"c=\xfe\n")
    lines = ottla("consume", made, "--until-end", "--json")
    ottla("produce", copy, "--json", "--compression", "zstd", stdin=lines)

    def content(records: list[dict[str, Any]]) -> list[Any]:
        return sorted(
            [[record[name] for name in ("key", "timestamp", "value", "headers")] for record in records], key=str
        )

    assert content(ottla.records(copy)) == content(ottla.records(made))


def test_a_copy_can_keep_every_record_in_its_partition(ottla: Ottla, made: str) -> None:
    copy = f"{made}-copy"
    ottla("topic", "create", copy, "-p", "3")
    for number in range(3):
        ottla("produce", made, "-p", str(number), "-q", stdin=b"from %d\n" % number)
    for form in ("--json", "--csv"):
        ottla("produce", copy, form, "--same-partition", stdin=ottla("consume", made, "-e", form))
    places = sorted((record["partition"], record["value"]) for record in ottla.records(copy))
    assert places == sorted((number, f"from {number}") for number in range(3) for _ in range(2))
    nowhere = ottla.attempt("produce", copy, "--json", "--same-partition", stdin=b'{"value":"x"}')
    assert nowhere.returncode == 1
    assert b"line 1 of standard input names no partition" in nowhere.stderr


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_and_many_records_arrive_once_in_order_of_their_key(
    ottla: Ottla, made: str, compression: str
) -> None:
    lines = b"".join(b"k%d:%d\n" % (number % 7, number) for number in range(5_000))
    ottla("produce", made, "-K", ":", "--compression", compression, stdin=lines)
    seen: dict[str, list[int]] = {}
    for line in ottla.lines("consume", made, "-e", "--keys"):
        key, value = line.split("\t")
        seen.setdefault(key, []).append(int(value))
    assert seen == {f"k{key}": list(range(key, 5_000, 7)) for key in range(7)}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(ottla: Ottla, made: str, acks: str) -> None:
    ottla("produce", made, "-p", "0", stdin=b"first\n")  # without acks, a partition whose leader is new loses records
    ottla("produce", made, "-p", "0", "--acks", acks, stdin=b"x\n" * 100)
    until(lambda: len(ottla.lines("consume", made, "-e")) == 101, "a hundred records")


def test_files_are_sent_in_turn_and_standard_input_where_a_dash_stands(ottla: Ottla, made: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"4")
    ottla("produce", made, "-p", "2", str(tmp_path / "a"), "-", str(tmp_path / "b"), stdin=b"3\n")
    assert ottla.lines("consume", made, "-p", "2", "-e") == ["1", "2", "3", "4"]


def test_reading_starts_where_it_is_told_and_ends_after_so_many(ottla: Ottla, made: str) -> None:
    for number, stamp in enumerate(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]):
        line = json.dumps({"value": str(number), "timestamp": stamp.replace("Z", "+00:00")})
        ottla("produce", made, "--json", "-p", "0", stdin=line.encode())
    ottla("produce", made, "-p", "1", stdin=b"other\n")

    def values(*arguments: str) -> list[str]:
        return ottla.lines("consume", made, "-p", "0", "--until-end", *arguments)

    assert values() == ["0", "1", "2"]
    assert values("--from", "1") == ["1", "2"]
    assert values("--from", "-1") == ["2"]
    assert values("--from", "-9") == ["0", "1", "2"]
    assert values("--from", "2026-01-02T00:00:00+00:00") == ["1", "2"]
    assert values("--from", "end") == []
    assert values("--max", "2") == ["0", "1"]
    assert values("--format", r"{partition}/{offset}={value};") == ["0/0=0;0/1=1;0/2=2;"]
    assert values("--timestamps", "--max", "1") == ["2026-01-01T00:00:00.000Z\t0"]
    assert sorted(ottla.lines("consume", made, "-p", "0", "-p", "1", "-e")) == ["0", "1", "2", "other"]
    assert len(ottla.lines("consume", made, "--max", "4")) == 4


def test_rows_go_out_and_come_in(ottla: Ottla, made: str) -> None:
    lines = [
        {"key": "ann", "value": 'two\nlines, "quoted"', "timestamp": 1000, "headers": {"h": "1"}},
        {"key": None, "value": {"base64": "/w=="}, "timestamp": 2000},
        {"key": "bob", "value": None, "timestamp": 3000},
    ]
    ottla("produce", made, "--json", "-p", "0", stdin="\n".join(map(json.dumps, lines)).encode())
    rows = ottla("consume", made, "-e", "--csv", "--null-value", "NULL")
    assert rows.splitlines()[0] == b"topic,partition,offset,timestamp,key,value,headers"
    ottla("produce", made, "--csv", "--null-value", "NULL", "-p", "1", stdin=rows)
    first, copy = ottla.records(made, "-p", "0"), ottla.records(made, "-p", "1")
    for record in (*first, *copy):
        del record["partition"]
    assert copy == first


def test_rows_of_any_file_become_objects_and_a_column_the_key(ottla: Ottla, made: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('id;name\n7;ann\n8;"b;ob"\n')
    options = ("--csv", "--separator", ";", "--key-column", "id", "-p", "0")
    ottla("produce", made, *options, str(tmp_path / "people.csv"))
    assert ottla.lines("consume", made, "-e", "-k") == [
        '7\t{"id":"7","name":"ann"}',
        '8\t{"id":"8","name":"b;ob"}',
    ]


def test_whole_files_own_delimiters_keys_times_and_reports(ottla: Ottla, made: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    ottla("produce", made, "--raw", "-k", "file", "-t", "@5000", "-p", "1", str(tmp_path / "a"))
    assert ottla("consume", made, "-e", "--raw") == b"one\ntwo\n"
    (record,) = ottla.records(made)
    assert (record["key"], record["timestamp"]) == ("file", 5000)
    placed = ottla.lines("produce", made, "-D", r"\0", "-K", r"\t", "-p", "1", "--report", stdin=b"k\t1\0k\t2")
    assert [(json.loads(row)["partition"], json.loads(row)["offset"]) for row in placed] == [(1, 1), (1, 2)]
    assert ottla("consume", made, "-f", "1", "-p", "1", "-n", "2", "-D", "|") == b"1|2|"


def test_numbers_are_sent_and_shown_as_kafka_has_them(ottla: Ottla, made: str) -> None:
    types = ("--key-type", "integer", "--value-type", "double")
    ottla("produce", made, "-K", ":", *types, stdin=b"7:1.5\n")
    assert ottla.lines("consume", made, "-e", "-k", *types) == ["7\t1.5"]
    assert ottla.lines("consume", made, "-e", "-k", "--key-type", "hex", "--value-type", "base64") == [
        "00000007\tP/gAAAAAAAA="
    ]
    wrong = ottla.attempt("consume", made, "-e", "--value-type", "short")
    assert wrong.returncode == 1
    assert b"is 8 bytes, and a short has 2; try another --value-type" in wrong.stderr


def test_bad_lines_can_be_skipped_and_a_rate_be_kept(ottla: Ottla, made: str) -> None:
    lines = b'{"value":"a"}\nnonsense\n{"value":"b"}\n'
    answer = ottla.attempt("produce", made, "--json", "-p", "0", "--skip-bad", "--rate", "1000", stdin=lines)
    assert answer.returncode == 0
    assert answer.stderr.rstrip().endswith(b", 1 skipped")
    assert ottla.lines("consume", made, "-e") == ["a", "b"]


def test_a_transaction_arrives_whole_or_not_at_all(ottla: Ottla, made: str) -> None:
    options = ("--json", "--transactional-id", made, "-p", "0")
    failed = ottla.attempt("produce", made, *options, stdin=b'{"value":"lost"}\nnonsense\n')
    assert failed.returncode == 1
    assert b"nothing was sent" in failed.stderr
    ottla("produce", made, *options, stdin=b'{"value":"a"}\n{"value":"b"}\n')
    until_committed(ottla, made, ["a", "b"])
    assert ottla.lines("consume", made, "-e") == ["lost", "a", "b"]


def test_records_are_chosen_by_key_header_and_expression(ottla: Ottla, made: str) -> None:
    lines = [
        {"key": "ann", "value": {"amount": 5}, "headers": {"source": "web"}, "timestamp": 1000},
        {"key": "bob", "value": {"amount": 50}, "headers": {"source": "app"}, "timestamp": 2000},
        {"key": "ann", "value": "no object", "timestamp": 3000},
    ]
    ottla("produce", made, "--json", "-p", "0", stdin="\n".join(map(json.dumps, lines)).encode())

    def offsets(*arguments: str) -> list[int]:
        return [record["offset"] for record in ottla.records(made, *arguments)]

    assert offsets("--where-key", "ann") == [0, 2]
    assert offsets("--where-header", "source") == [0, 1]
    assert offsets("--where-header", "source=app") == [1]
    assert offsets("--where-key", "ann", "--where-header", "source=web", "--where", "partition == 0") == [0]
    assert offsets("--where", "time.second > 1 and key.startswith(('a', 'b'))", "-n", "1") == [1]
    some = ottla.attempt("consume", made, "-e", "--where", "value['amount'] > 10")
    assert (some.returncode, some.stdout) == (0, b'{"amount":50}\n')
    assert b"left out 1 record on which --where failed" in some.stderr
    unknown = ottla.attempt("consume", made, "-e", "--where", "amount > 10")
    assert unknown.returncode == 1
    assert b"name 'amount' is not defined; it sees topic, " in unknown.stderr


def test_reading_ends_at_an_offset_or_a_time(ottla: Ottla, made: str) -> None:
    lines = "".join(json.dumps({"value": str(number), "timestamp": number * 1000}) + "\n" for number in range(1, 6))
    ottla("produce", made, "--json", "-p", "0", stdin=lines.encode())
    assert ottla.lines("consume", made, "--until", "2") == ["1", "2"]
    assert ottla.lines("consume", made, "--from", "@2000", "--until", "@4000") == ["2", "3"]
    assert ottla.lines("consume", made, "--until", "-1") == ["1", "2", "3", "4"]
    assert ottla.lines("consume", made, "--until", "1h") == ["1", "2", "3", "4", "5"]
    idle = ("consume", made, "--from", "4", "-p", "0", "--idle", "0.5")  # a slow machine may be idle before the first
    until(lambda: ottla.lines(*idle) == ["5"], "the record, and then nothing for a while")


def test_several_topics_are_read_by_name_or_pattern(ottla: Ottla, made: str) -> None:
    other = f"{made}-other"
    ottla("topic", "create", other, "-p", "1")
    ottla("produce", made, "-p", "0", stdin=b"a\n")
    ottla("produce", other, stdin=b"b\n")
    template = ("-F", r"{topic}={value} {header:none} {value_size}\n")
    expected = sorted([f"{made}=a null 1", f"{other}=b null 1"])
    assert sorted(ottla.lines("consume", made, other, "-e", *template)) == expected
    assert sorted(ottla.lines("consume", f"^{made}", "-e", *template)) == expected
    assert b"no topic matches" in ottla.attempt("consume", "^no-such-", "-e").stderr


def test_a_group_goes_on_where_it_was_and_commits_only_what_was_shown(ottla: Ottla, made: str) -> None:
    ottla("produce", made, "-p", "0", stdin=b"a\nb\nc\nd\n")
    group = ("--group", made)
    assert ottla.lines("consume", made, *group, "-n", "1") == ["a"]
    assert ottla.lines("consume", made, *group, "-n", "1", "--where", "text == 'c'") == ["c"]
    assert ottla.lines("consume", made, *group, "-e", "-X", "enable.auto.commit=false") == ["d"]
    assert ottla.lines("consume", f"^{made}$", *group, "--until-end") == ["d"]
    assert ottla.lines("consume", made, *group, "--until-end") == []
    assert ottla.lines("consume", made, "-g", f"{made}-late", "--from", "end", "-e") == []


def test_a_group_that_has_read_a_transaction_is_not_behind_its_end(ottla: Ottla, made: str) -> None:
    ottla("produce", made, "--transactional-id", made, "-p", "0", stdin=b"a\nb\n")
    until_committed(ottla, made, ["a", "b"])
    assert ottla.lines("consume", made, "-g", made, "-e", "--committed") == ["a", "b"]
    (described,) = ottla.json("group", "describe", made)
    assert described["lag"] == 0


def test_a_profile_names_the_cluster_and_sets_the_clients(ottla: Ottla, made: str, tmp_path: Path) -> None:
    bootstrap = ottla.environment["OTTLA_BOOTSTRAP"]
    named = Ottla(None, {"OTTLA_CONFIG": str(tmp_path / "config.toml")})
    named("profile", "set", "mine", f"bootstrap.servers={bootstrap}", "isolation.level=read_committed", "acks=1")
    named("profile", "use", "mine")
    ottla.attempt("produce", made, "--json", "--transactional-id", made, "-p", "0", stdin=b'{"value":"x"}\nwrong\n')
    named("produce", made, "-p", "0", stdin=b"y\n")
    until_committed(ottla, made, ["y"])
    assert named.lines("consume", made, "-e") == ["y"]
    assert named.lines("consume", made, "-e", "--set", "isolation.level=read_uncommitted") == ["x", "y"]
    assert made in [row["name"] for row in named.json("topic", "list", "--profile", "mine")]


AVRO = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}, {"name": "n", "type": "int"}]}


def test_avro_goes_in_and_comes_out_as_json_and_is_what_clients_write(ottla: Ottla, made: str, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "key.avsc").write_text('"string"')
    schemas = ("--key-schema", str(tmp_path / "key.avsc"), "--value-schema", str(tmp_path / "order.avsc"))
    types = ("--key-type", "avro", "--value-type", "avro", *schemas)
    lines = b'"ann"={"item":"tea","n":2}\n"bob"={"item":"caf\xc3\xa9","n":3}\n'
    numbers = ("--key-schema-id", "1", "--value-schema-id", "258")
    ottla("produce", made, "-K", "=", "-p", "0", *types, *numbers, stdin=lines)
    assert ottla("consume", made, "-e", "--keys", "--separator", "=", *types, "--framed") == lines
    assert ottla.lines("consume", made, "-e", *types, "--framed", "--where", "value['n'] > 2") == [
        '{"item":"café","n":3}'
    ]
    with blocking.Consumer(
        made,
        bootstrap_servers=ottla.environment["OTTLA_BOOTSTRAP"],
        auto_offset_reset="earliest",
        value_deserializer=Avro(AVRO, framed=True),
    ) as consumer:
        assert next(iter(consumer)).value == {"item": "tea", "n": 2}
    failed = ottla.attempt("consume", made, "-e", *types)
    assert failed.returncode == 1
    assert (
        failed.stderr
        == (
            f"ottla: the key of {made}-0 offset 0 is no Avro of this schema (ValueError: 8 bytes are left over); "
            "try another --key-schema, or --framed\n"
        ).encode()
    )


def test_protobuf_goes_in_and_comes_out_as_json(ottla: Ottla, made: str, tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="order.proto", package="shop", syntax="proto3").message_type.add(name="Order")
    message.field.add(name="item", number=1, type=9, label=1)
    message.field.add(name="n", number=2, type=5, label=1)
    (tmp_path / "order.desc").write_bytes(files.SerializeToString())
    types = (
        "--value-type",
        "protobuf",
        "--value-schema",
        str(tmp_path / "order.desc"),
        "--value-message",
        "shop.Order",
    )
    ottla("produce", made, "--json", "-p", "0", *types, stdin=b'{"value": {"item": "tea", "n": 2}}\n{"value": null}\n')
    assert ottla("consume", made, "-e", "--value-type", "hex") == b"0a03746561" + b"1002\nnull\n"
    assert ottla("consume", made, "-e", *types) == b'{"item": "tea", "n": 2}\nnull\n'
    refused = ottla.attempt("produce", made, *types, stdin=b'{"itom": 1}')
    assert refused.returncode == 1
    assert b"line 1 of standard input does not fit the message shop.Order" in refused.stderr
