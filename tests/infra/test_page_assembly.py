"""The page is put together from modules that fit together, or not at all."""

from pathlib import Path

import pytest

from infra.asset import SOURCES
from infra.page import FOLDER, BadPage, assemble

SHELL = '<style></style><script type="module"></script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shell.html").write_text(SHELL)
    (tmp_path / "style.css").write_text("p { margin: 0; }\n")
    (tmp_path / "app.js").write_text('import { one } from "./numbers.js";\none();\n')
    (tmp_path / "numbers.js").write_text("export function one() { return 1; }\n")
    return tmp_path


def test_a_module_comes_after_those_that_it_needs(folder: Path) -> None:
    document = assemble(folder)

    assert document.index("const numbers_module") < document.index("const app_module")
    assert "const { one } = numbers_module;" in document
    assert "p { margin: 0; }" in document
    assert "import " not in document
    assert "export " not in document


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("numbers.js", 'import { a } from "./app.js";\nexport const one = 1;\n', "circle"),
        ("app.js", 'import { two } from "./numbers.js";\n', "does not export"),
        ("app.js", 'import * as numbers from "./numbers.js";\n', "not understood"),
        ("numbers.js", "export default 1;\nexport const one = 1;\n", "not understood"),
        ("extra.js", "export const extra = 1;\n", "nothing imports extra.js"),
        ("style.css", "</style>", "nothing can be put"),
        ("shell.html", "<style></style>", "nothing can be put"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, name: str, text: str, why: str) -> None:
    (folder / name).write_text(text)

    with pytest.raises(BadPage, match=why):
        assemble(folder)


def test_the_real_one_asks_nobody_else_for_anything() -> None:
    document = assemble(SOURCES / FOLDER)

    assert "https://" not in document.replace("https://example.com", "")
    assert "http://" not in document.replace("http://www.w3.org/2000/svg", "")
