"""Plans and moves as they are written, read and shown."""

import json
from pathlib import Path

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.moves import Move, load_table, moves_json, moves_table, parse_rate, plan_json, plan_table, read_plan
from ottla.cli.output import plain
from ottla.client.admin.brokers import Reassignment
from ottla.client.balancing import BalancePlan
from ottla.client.cluster import Partition, Topic

PLACE = TopicPartition("t", 0)
PLAN = BalancePlan({PLACE: (1, 2)}, {PLACE: (3, 1)})
MOVE = Move(PLACE, Reassignment((3, 1, 2), (3,), (2,)), 512, 2048)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1000", 1000), ("10MB", 10_000_000), ("512KiB", 524_288), ("1.5 mb/s", 1_500_000), ("2g", 2 * 10**9)],
)
def test_a_rate_is_read_as_people_write_it(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-5", "0", "10 parsecs"])
def test_what_is_no_rate_is_none(text: str) -> None:
    assert parse_rate(text) is None


def test_a_plan_is_written_in_kafkas_form_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_json(PLAN.after)))
    assert read_plan(str(path)) == {PLACE: (3, 1)}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": []}', '{"partitions": [{"topic": "t"}]}'])
def test_a_file_that_is_no_plan_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(Failure, match="plan"):
        read_plan(str(path))


def test_a_plan_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot read the plan"):
        read_plan(str(tmp_path / "none.json"))


def test_a_plan_shows_what_is_copied_and_what_brokers_carry_then() -> None:
    assert plain(plan_table(PLAN, {PLACE: 4096})) == (
        "TOPIC  PARTITION  NOW  THEN   COPIES\nt              0  1,2  3,1   4.0 KiB\n"
    )
    topics = [Topic("t", bytes(16), False, (Partition(0, 1, 0, (1, 2), (1, 2), ()),))]
    assert plain(load_table(PLAN, topics)) == (
        "BROKER  REPLICAS  LEADERS\n     1     1 → 1    1 → 0\n     2     1 → 0    0 → 0\n     3     0 → 1    0 → 1\n"
    )


def test_moves_show_how_far_they_are() -> None:
    assert plain(moves_table([MOVE])) == (
        "TOPIC  PARTITION  REPLICAS  ADDING  REMOVING  COPIED       OF\n"
        "t              0  3,1,2     3       2          512 B  2.0 KiB\n"
    )
    assert moves_json([MOVE])[0]["copied"] == 512
