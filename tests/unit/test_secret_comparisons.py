"""No code compares secrets with `==`, whose time tells how much of a guess was right."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.unit.test_imports import modules, named, tree

SECRET = {
    *("authorization", "credential", "digest", "hash", "hexdigest", "hmac", "key", "mac"),
    *("password", "presented", "secret", "sig", "signature", "token"),
}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# Comparisons of what only sounds like a secret, with the reason.
HARMLESS = {
    (
        "functions.shared.engine.step",
        "record.token != message.token",
    ): "a step's token says which step a message is about; no caller ever sends one",
    (
        "functions.shared.stores.instances",
        "stored['token'] == record.token",
    ): "a step's token, both from the table",
    (
        "functions.dead_letters.handler",
        "record.token != dead_letter.token",
    ): "a step's token, from our own queue",
    (
        "functions.shared.stores.deliveries",
        "stands.get('claim') == token",
    ): "the name of an attempt that this process made up, against the table",
    (
        "functions.shared.domain.money.budgets",
        "key == self.owner",
    ): "ids of keys, which every view shows",
    (
        "functions.shared.engine.shared_polling",
        "listed.key_version == self._novita.key_version()",
    ): "the secret's version in Secrets Manager, not the secret",
    (
        "functions.shared.stores.idempotency",
        "item['bodyHash'] != request.body_hash",
    ): "a caller's own body against the caller's own earlier body",
}


def suspicious(module: ast.AST) -> Iterator[str]:
    """Every == and != between two things of which one is named like a secret; a literal is none."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            literal = isinstance(left, ast.Constant) or isinstance(right, ast.Constant)
            if isinstance(operator, ast.Eq | ast.NotEq) and not literal and secret(left) | secret(right):
                yield ast.unparse(node)


def secret(side: ast.expr) -> bool:
    return any(word.lower() in SECRET for name in names(side) for word in WORDS.findall(name))


def names(side: ast.expr) -> Iterator[str]:
    """What the compared value is called: a variable, an attribute, a field, or the method that made it."""
    match side:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            yield name
        case ast.Subscript(value=inner):
            yield from names(inner)
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
            yield from names(function)
            yield name
        case ast.Call(func=ast.Attribute(value=inner, attr=method)):
            yield method
            yield from names(inner)
        case ast.Call(func=function):
            yield from names(function)


def found() -> set[tuple[str, str]]:
    return {(named(path), text) for path in modules("functions") for text in suspicious(tree(path))}


def test_secrets_are_never_compared_with_an_operator() -> None:
    assert sorted(found() - HARMLESS.keys()) == []


def test_every_exception_is_still_there() -> None:
    assert sorted(HARMLESS.keys() - found()) == []


@pytest.mark.parametrize(
    "code",
    [
        "if presented == stored: pass",
        "ok = signature != self._signature(after, listing)",
        "return_value = hashlib.sha256(given).hexdigest() == item['pk']",
        "same = item['keyHash'] == given",
        "same = item.get('secret') == given",
        "same = headers['authorization'] == wanted",
        "same = api_key.encode() == given",
        "same = given == expected_mac[:16]",
        "a = [one for one in kept if one.password == given]",
        "a = x == y == webhookSecret",
    ],
)
def test_such_a_comparison_would_be_seen(code: str) -> None:
    assert list(suspicious(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["a = kind == 'keys'", "a = monkey == donkey", "a = tokens is None", "a = b == c"]
)
def test_other_comparisons_are_left_alone(code: str) -> None:
    assert not list(suspicious(ast.parse(code)))
