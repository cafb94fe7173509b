"""What is promised about the sources themselves."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = list((PROJECT / "src/platform_auth").glob("*.py"))


PYRIGHT = str(PROJECT / "../../node_modules/.bin/pyright")


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs mypy as pyproject.toml configures it, with a cache that the checks share."""
    cache = str(tmp_path_factory.mktemp("mypy"))
    return [sys.executable, "-m", "mypy", "--config-file", str(PROJECT / "pyproject.toml"), "--cache-dir", cache]


def check(*commands: list[str], folder: Path = PROJECT) -> None:
    for command in commands:
        checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_sources_and_a_strictly_typed_service_pass_mypy_and_pyright(mypy: list[str], tmp_path: Path) -> None:
    consumer = shutil.copy(PROJECT / "tests/consumer.py", tmp_path)
    # One run for both, because each run reads the types of all packages anew.
    configuration = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["pyright"]
    included = [str(PROJECT / "src"), consumer]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**configuration, "include": included}))
    check(mypy)
    check([*mypy, "consumer.py"], [PYRIGHT, "--pythonpath", sys.executable], folder=tmp_path)


def test_the_readme_has_at_most_60_lines() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 60


def test_secrets_are_not_compared_with_equals() -> None:
    pattern = re.compile(r"(secret|digest|key|token)\b *[!=]= *(?!None)", re.IGNORECASE)
    found = [line for path in SOURCES for line in path.read_text().splitlines() if pattern.search(line)]
    assert found == []
