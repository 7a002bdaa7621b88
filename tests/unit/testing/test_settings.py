"""Settings that a test gives to embedded nodes."""

import pytest

from ottla.testing.settings import texts_of_nodes


def test_names_may_be_written_with_underscores() -> None:
    assert texts_of_nodes({"log_retention_ms": 5, "auto_create_topics_enable": False}) == {
        "log.retention.ms": "5",
        "auto.create.topics.enable": "false",
    }


@pytest.mark.parametrize("name", ["listeners", "log_dirs", "node_id"])
def test_what_an_embedded_node_chooses_itself_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is chosen here"):
        texts_of_nodes({name: "x"})


def test_an_embedded_node_serves_no_metrics() -> None:
    with pytest.raises(ValueError, match="an embedded node serves no metrics"):
        texts_of_nodes({"ottla_metrics_port": 9404})
