"""The import rules of the code base, kept by reading the syntax trees."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOMAIN = "functions.shared.domain"


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def named(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Everything the module imports, also inside functions and for the type checker."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def within(imported: str, package: str) -> bool:
    return imported == package or imported.startswith(f"{package}.")


def breaches(folder: str, *packages: str) -> list[str]:
    return [
        f"{named(path)} imports {one}"
        for path in modules(folder)
        for one in imports(path)
        if any(within(one, package) for package in packages)
    ]


def reads_environment(path: Path) -> bool:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "putenv"):
            return isinstance(node.value, ast.Name) and node.value.id == "os"
    return any(one in ("os.environ", "os.getenv") for one in imports(path))


def test_the_rules_are_looked_for_where_the_code_is() -> None:
    assert len(modules("functions")) > 50
    assert all(modules(folder) for folder in ("infra", "local", "ops", "functions/shared/domain"))


def test_the_domain_imports_the_standard_library_and_itself() -> None:
    outside = [
        f"{named(path)} imports {one}"
        for path in modules("functions/shared/domain")
        for one in imports(path)
        if not within(one, DOMAIN) and one.split(".")[0] not in sys.stdlib_module_names
    ]

    assert outside == []


def test_functions_never_import_each_other() -> None:
    folders = [
        path.name for path in (ROOT / "functions").iterdir() if path.is_dir() and path.name != "__pycache__"
    ]
    functions = [name for name in folders if name != "shared"]

    for name in functions:
        others = [f"functions.{other}" for other in functions if other != name]
        assert breaches(f"functions/{name}", *others) == []
    upwards = breaches("functions/shared", *(f"functions.{name}" for name in functions))
    # It composes every use case, each when it is first asked for.
    assert {one.split(" ")[0] for one in upwards} == {"functions.shared.platform.invocation"}


def test_what_ships_imports_nothing_that_does_not() -> None:
    assert (
        breaches("functions", "local", "ops", "docs", "tests", "infra", "bench", "aws_cdk", "moto", "pytest")
        == []
    )


def test_the_stack_and_the_functions_know_nothing_of_each_other() -> None:
    assert breaches("infra", "functions", "local", "ops", "tests") == []


def test_what_runs_on_one_machine_never_imports_the_cdk() -> None:
    assert breaches("local", "aws_cdk", "infra.stack", "constructs") == []


def test_commands_for_a_deployed_stack_need_neither_the_cdk_nor_the_local_run() -> None:
    assert breaches("ops", "aws_cdk", "infra", "constructs", "local", "tests") == []


def test_only_the_wiring_reads_the_environment() -> None:
    readers = [named(path) for path in modules("functions") if reads_environment(path)]

    assert readers == ["functions.shared.platform.wiring"]


# What a layer may import of the others in functions/shared, beside itself and the domain.
MAY_IMPORT = {
    "stores": {"platform.observability"},
    "novita": {"platform.observability", "outbound.http"},
    "outbound": {"platform.observability"},
    "engine": {"stores", "novita", "platform"},
    "platform": {"stores", "novita", "outbound", "engine"},
}
COMPOSES = ROOT / "functions/shared/platform/invocation.py"


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_knows_only_those_below_it(layer: str) -> None:
    allowed = {DOMAIN, f"functions.shared.{layer}", *(f"functions.shared.{one}" for one in MAY_IMPORT[layer])}

    upwards = [
        f"{named(path)} imports {one}"
        for path in modules(f"functions/shared/{layer}")
        for one in imports(path)
        if path != COMPOSES
        and within(one, "functions")
        and not any(within(one, package) for package in allowed)
    ]

    assert upwards == []


def test_a_consumers_handler_holds_no_try() -> None:
    """What fails goes back to its queue. Only the API has somebody to answer."""
    handlers = [
        node
        for path in modules("functions")
        if path.name == "handler.py" and path.parent.name != "api"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and node.name == "handler"
    ]

    assert len(handlers) == 7
    assert not [node for one in handlers for node in ast.walk(one) if isinstance(node, ast.Try)]


@pytest.mark.parametrize("folder", ["functions", "infra", "local", "ops"])
def test_every_module_says_what_it_is_for(folder: str) -> None:
    silent = [named(p) for p in modules(folder) if p.read_text().strip() and not ast.get_docstring(tree(p))]

    assert silent == []


def test_boto3_is_not_imported() -> None:
    """It has nothing that botocore has not, and costs a twentieth of a cold start."""
    assert breaches("functions", "boto3") == []


def test_the_api_starts_without_what_few_requests_need() -> None:
    """Novita's client with requests, and the models that only /openapi.json is made of."""
    slow = ["requests", "aws_lambda_powertools.event_handler.openapi.models"]
    code = f"import sys, functions.api.handler; print([one for one in {slow} if one in sys.modules])"

    started = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert started.stdout.strip() == "[]"
