"""Where each form of a reset leads, and how a plan is written and read."""

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.group_resets import Aim, Bounds, ResetStep, Way, plan_csv, plan_json, plan_table, read_csv, target_of
from ottla.cli.output import plain

PLACE = TopicPartition("t", 0)
BOUNDS = Bounds(10, 90)


@pytest.mark.parametrize(
    ("aim", "current", "by_time", "target"),
    [
        (Aim(Way.EARLIEST), 50, -1, 10),
        (Aim(Way.LATEST), 50, -1, 90),
        (Aim(Way.CURRENT), 50, -1, 50),
        (Aim(Way.CURRENT), None, -1, 90),
        (Aim(Way.OFFSET, 42), 50, -1, 42),
        (Aim(Way.OFFSET, 3), 50, -1, 10),
        (Aim(Way.OFFSET, 300), 50, -1, 90),
        (Aim(Way.SHIFT, -5), 50, -1, 45),
        (Aim(Way.SHIFT, -50), 50, -1, 10),
        (Aim(Way.SHIFT, 500), 50, -1, 90),
        (Aim(Way.MOMENT, 1000), 50, 33, 33),
        (Aim(Way.MOMENT, 1000), 50, -1, 90),
        (Aim(Way.FILE, offsets={PLACE: 77}), 50, -1, 77),
        (Aim(Way.FILE, offsets={PLACE: 777}), None, -1, 90),
    ],
)
def test_every_form_leads_to_an_offset_the_partition_has(
    aim: Aim, current: int | None, by_time: int, target: int
) -> None:
    assert target_of(aim, PLACE, current, BOUNDS, by_time) == target


def test_what_is_nowhere_cannot_be_shifted() -> None:
    with pytest.raises(Failure, match="t:0"):
        target_of(Aim(Way.SHIFT, 1), PLACE, None, BOUNDS, -1)


STEPS = [ResetStep("g", PLACE, None, 10, BOUNDS), ResetStep("g", TopicPartition("t", 1), 50, 90, BOUNDS)]


def test_a_plan_shows_now_then_and_the_lag_there_will_be() -> None:
    assert plain(plan_table(STEPS)) == (
        "GROUP  TOPIC  PARTITION  NOW  THEN  LAG THEN\n"
        "g      t              0    -    10        80\n"
        "g      t              1   50    90         0\n"
    )
    assert plan_json(STEPS)[0] == {
        "group": "g", "topic": "t", "partition": 0, "current": None, "offset": 10, "lag": 80,
    }  # fmt: skip


def test_a_plan_of_one_group_is_written_as_kafkas_tool_does_and_read_back() -> None:
    text = plan_csv(STEPS, ["g"])
    assert text == "t,0,10\nt,1,90\n"
    assert read_csv(text, "f", ["g"]) == {"g": {PLACE: 10, TopicPartition("t", 1): 90}}


def test_a_plan_of_several_groups_names_them() -> None:
    text = plan_csv([*STEPS, ResetStep("h, too", PLACE, 1, 20, BOUNDS)], ["g", "h, too"])
    assert text.splitlines()[-1] == '"h, too",t,0,20'
    assert read_csv(text, "f", ["g", "h, too"])["h, too"] == {PLACE: 20}


@pytest.mark.parametrize("text", ["t,0\n", "t,x,1\n", "a,b,c,d,e\n"])
def test_a_line_that_is_no_step_is_named(text: str) -> None:
    with pytest.raises(Failure, match=r"line 2 of f is not topic,partition,offset"):
        read_csv("t,0,1\n" + text, "f", ["g"])
