"""One Spark for all tests: a session takes seconds to start."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import ottla.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    # PySpark leaves sockets to the collector, which finds them during any of the tests that follow.
    pytestconfig.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "FATAL",
        "spark.python.authenticate.socketTimeout": "5m",  # who fetches rows may be slow to come for them
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark leaves sockets to the collector
        session = ottla.spark.start_session("tests", "local[2]", settings)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
