"""What is promised about the sources themselves."""

import json
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = list((PROJECT / "src/platform_auth").glob("*.py"))


PYRIGHT = str(PROJECT / "../../node_modules/.bin/pyright")


def test_types_hold_under_both_strict_checkers(tmp_path: Path) -> None:
    """As pyproject.toml configures them."""
    for command in (
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)],
        [PYRIGHT, "--pythonpath", sys.executable],
    ):
        checked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_strictly_typed_service_passes_mypy_and_pyright(tmp_path: Path) -> None:
    configuration = {"include": ["."], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(configuration))
    (tmp_path / "consumer.py").write_text((PROJECT / "tests/consumer.py").read_text())
    for command in (
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "consumer.py"],
        [PYRIGHT, "--pythonpath", sys.executable],
    ):
        checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_readme_has_at_most_60_lines() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 60


def test_secrets_are_not_compared_with_equals() -> None:
    pattern = re.compile(r"(secret|digest|key|token)\b *[!=]= *(?!None)", re.IGNORECASE)
    found = [line for path in SOURCES for line in path.read_text().splitlines() if pattern.search(line)]
    assert found == []
