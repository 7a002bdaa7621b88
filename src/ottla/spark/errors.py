"""What the data source says in one sentence; Spark shows it where the query was written."""

from ottla.client.errors import ConnectionFailed


class BadOption(ValueError):
    """An option that does not exist, cannot have its value or does not go with another."""


class DataLoss(Exception):
    """Records that should have been read are gone."""

    def __str__(self) -> str:
        return f"{self.args[0]}. Set failOnDataLoss=false to go on without those records."


class Unreachable(ConnectionFailed):
    """The cluster does not answer."""

    def __str__(self) -> str:
        return f"no broker can be reached ({self.address}: {self.reason}). Check bootstrap.servers, and that it runs."


class BadRows(ValueError):
    """Rows that cannot be written."""


class NoJava(Exception):
    """Spark cannot run here."""


class Undecodable(ValueError):
    """A record whose value is not what its format and schema say."""

    def __str__(self) -> str:
        return (
            f"{self.args[0]}. Set mode=PERMISSIVE to get such values in the column _corrupt_record, "
            "or mode=DROPMALFORMED to go on without them."
        )
