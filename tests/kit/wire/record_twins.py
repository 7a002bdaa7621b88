"""Both twins of the record codec, for tests that run over each."""

from types import ModuleType

import pytest

from ottla.records import _pure

TWINS: list[ModuleType] = [_pure]
try:
    from ottla.records import _codec
except ImportError:  # not built here: the Python twin is what serves, so it is what is tested
    COMPILED = False
else:
    COMPILED = True
    TWINS.append(_codec)

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__.rpartition(".")[2])
needs_compiled = pytest.mark.skipif(not COMPILED, reason="the compiled codec was not built")
