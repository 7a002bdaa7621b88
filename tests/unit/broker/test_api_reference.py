"""The page about APIs says what the table says, every handler is in the table, and its head agrees with it."""

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ottla.broker import handlers
from ottla.broker.apis import HANDLED, SERVED, served_apis
from ottla.wire.apis import Api

ROOT = Path(__file__).resolve().parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_api_reference", ROOT / "scripts/generate_api_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    page = ROOT / "docs/reference/apis.md"
    assert page.read_text() == generator().text(), "run scripts/generate_api_reference.py"


def test_every_api_that_is_missing_has_a_reason_and_every_reason_is_needed() -> None:
    served = {api.name for api in SERVED.values()}
    assert not served & set(generator().REASONS)


def test_every_module_of_the_folder_is_served_and_every_served_api_has_its_module() -> None:
    folder = Path(str(handlers.__file__)).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert modules == {*HANDLED, "produce", "fetch"}


def head_of(api: Api) -> str:
    return import_module(f"ottla.broker.handlers.{api.module}").__doc__ or ""


def test_the_head_of_a_handler_names_the_api_and_the_versions_of_the_table() -> None:
    versions = re.compile(r"(\w+), v(\d+)(?: (?:to|and) v(\d+))?\b")
    for api in served_apis(unstable=True).values():
        named = versions.match(head_of(api))
        assert named is not None, api.name
        assert (named[1], int(named[2]), int(named[3] or named[2])) == (api.name, api.first, api.last)


def test_the_head_of_a_handler_names_the_proposals_behind_it() -> None:
    assert not [api.name for api in SERVED.values() if not re.search(r"\bKIP-\d+\b", head_of(api))]
