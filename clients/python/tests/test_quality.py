"""What is promised about the sources themselves."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = list((PROJECT / "src/platform_auth").glob("*.py"))


PYRIGHT = str(PROJECT / "../../node_modules/.bin/pyright")


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """As pyproject.toml configures it. The second check finds the types of all packages in the cache."""
    cache = str(tmp_path_factory.mktemp("mypy"))
    return [sys.executable, "-m", "mypy", "--config-file", str(PROJECT / "pyproject.toml"), "--cache-dir", cache]


def check(commands: list[list[str]], folder: Path) -> None:
    for command in commands:
        checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_types_hold_under_both_strict_checkers(mypy: list[str]) -> None:
    check([mypy, [PYRIGHT, "--pythonpath", sys.executable]], PROJECT)


def test_a_strictly_typed_service_passes_mypy_and_pyright(mypy: list[str], tmp_path: Path) -> None:
    configuration = {"include": ["."], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(configuration))
    (tmp_path / "consumer.py").write_text((PROJECT / "tests/consumer.py").read_text())
    check([[*mypy, "consumer.py"], [PYRIGHT, "--pythonpath", sys.executable]], tmp_path)


def test_the_readme_has_at_most_60_lines() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 60


def test_secrets_are_not_compared_with_equals() -> None:
    pattern = re.compile(r"(secret|digest|key|token)\b *[!=]= *(?!None)", re.IGNORECASE)
    found = [line for path in SOURCES for line in path.read_text().splitlines() if pattern.search(line)]
    assert found == []
