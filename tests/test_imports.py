"""The rule of direction: plain data <- core <- adapters <- chat <- integrations, drill, command line."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reliable_llm

ROOT = Path(reliable_llm.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
CORE = [module for module in MODULES if module.startswith("core/")]

PLAIN = {"errors", "types", "policy", "credentials", "events", "vendors"}
INNER = PLAIN | {"clock", "core"}
TOP = {"integrations", "drill", "cli", "commands", "diagnosis", "explain", "replay", "testing", "pytest_plugin"}
# What each package or module at the top level may import from this project. All others make up the coordinator, which
# may import anything but what stands on top of it.
MAY_IMPORT = {
    **dict.fromkeys(PLAIN, PLAIN),
    "clock": set(),
    "core": PLAIN | {"core"},
    "adapters": INNER | {"adapters"},
    "state": INNER | {"state"},
    "telemetry": INNER | {"telemetry"},
}
SDKS = {"openai", "anthropic", "google"}
HEAVY = {"openai", "anthropic", "pydantic", "httpx2", "structlog", "rich", "aiohttp", "anyio", "asyncio"}


def layer_of(module: str) -> str:
    return module.split("/", 1)[0].removesuffix(".py")


COORDINATOR = {layer_of(module) for module in MODULES} - TOP - {"__init__", "__main__"}


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all that runs: not what stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from walk(child)


def imports_of(module: str) -> Iterator[str]:
    """Yield every absolute import of *module* in dotted form, those inside functions too."""
    for node in walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield from (f"reliable_llm.{a.name}" for a in node.names) if base == "reliable_llm" else (base,)


def own_layers(module: str) -> set[str]:
    return {name.split(".")[1] for name in imports_of(module) if name.startswith("reliable_llm.")}


def foreign(module: str) -> set[str]:
    tops = {name.split(".")[0] for name in imports_of(module)}
    return tops - set(sys.stdlib_module_names) - {"reliable_llm"}


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) not in TOP | {"__init__", "__main__"}])
def test_a_module_imports_only_from_its_own_layer_and_those_below(module: str) -> None:
    allowed = MAY_IMPORT.get(layer_of(module), COORDINATOR)

    assert own_layers(module) - allowed == set()


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) in PLAIN | {"core"}])
def test_plain_data_and_the_core_import_nothing_but_the_standard_library(module: str) -> None:
    assert foreign(module) == set()


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) == "adapters"])
def test_an_adapter_knows_at_most_one_vendor(module: str) -> None:
    assert len(foreign(module) & SDKS) <= 1


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) not in TOP | {"adapters"}])
def test_only_adapters_import_a_vendors_sdk(module: str) -> None:
    assert foreign(module) & SDKS == set()


@pytest.mark.parametrize("module", CORE)
def test_the_core_never_waits(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))

    asynchronous = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, asynchronous)] == []


@pytest.mark.parametrize("module", CORE)
def test_the_core_has_no_clock_no_chance_and_no_log(module: str) -> None:
    tops = {name.split(".")[0] for name in imports_of(module)}

    assert tops & {"time", "random", "secrets", "logging", "asyncio", "threading", "os", "socket"} == set()


@pytest.mark.parametrize("module", CORE)
def test_the_core_is_typed_without_any(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))

    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "Any"] == []


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that *statement* loads in a fresh interpreter."""
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return {name.split(".")[0] for name in run.stdout.split()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import reliable_llm") & HEAVY == set()


def test_importing_the_package_loads_fewer_than_ten_modules_beyond_the_interpreters_own() -> None:
    assert len(loaded_by("import reliable_llm") - loaded_by("pass")) < 10


def test_plain_data_loads_nothing_heavy() -> None:
    assert loaded_by("from reliable_llm import Message, RetryPolicy, ReliableLLMError, Usage") & HEAVY == set()


def test_building_a_coordinator_loads_no_vendor_sdk() -> None:
    build = "from reliable_llm import FailoverChat, Provider; FailoverChat([Provider.openai(keys=['k'], models=['m'])])"

    assert loaded_by(build) & SDKS == set()


def test_the_command_lines_help_loads_no_vendor_sdk() -> None:
    show = "import reliable_llm.cli as c; c._parser().format_help()"

    assert loaded_by(show) & (HEAVY - {"asyncio"}) == set()
