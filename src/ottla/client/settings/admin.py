"""Settings of an admin client."""

from ottla.base.settings.bounds import Range, Servers
from ottla.base.settings.kinds import Setting, ValueKind

# One setting a declaration, its facts first, its sentence below.
# fmt: off
OWN_SETTINGS: tuple[Setting, ...] = (
    Setting("bootstrap.controllers", ValueKind.LIST, "",
            "Controllers to ask instead of brokers.", check=Servers(),
            no_effect="brokers are asked; they hand on what controllers decide"),
    Setting("default.api.timeout.ms", ValueKind.INT, "60000",
            "How long a call without a time-out of its own may take, its retries included.", check=Range(0)),
    Setting("retries", ValueKind.INT, "2147483647",
            "How often a request is repeated.", check=Range(0, 2147483647),
            no_effect="a call is repeated until its time is over"),
)
# fmt: on
