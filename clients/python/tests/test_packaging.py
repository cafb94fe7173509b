"""The wheel, as a service installs it."""

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
# Imports no framework, because none is installed with the wheel.
PROGRAM = """
import asyncio, importlib.metadata, importlib.util
from platform_auth import RefusedError, Verifier
import platform_auth
assert "site-packages" in platform_auth.__file__, platform_auth.__file__
assert importlib.util.find_spec("starlette") is None
async def play():
    auth = Verifier.for_tests()
    for credential, verify in (
        (auth.issue_app(), auth.verify_app), (auth.issue_node(), auth.verify_node), (auth.issue_user(), auth.verify_user)
    ):
        assert await verify(credential.headers) == credential.principal
        auth.revoke(credential)
        try:
            await verify(credential.headers)
        except RefusedError as refusal:
            assert refusal.status == 401
        else:
            raise AssertionError
    Verifier(url="https://127.0.0.1:1", app_id="01985f4e-7c3a-7b52-9d1e-000000000c01", app_key="pa_app_own", service_name="recipes").close()
asyncio.run(play())
print(importlib.metadata.version("platform-auth"), *sorted(importlib.metadata.requires("platform-auth"))[:2])
"""


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", str(PROJECT), cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    sources = {f"platform_auth/{path.name}" for path in (PROJECT / "src/platform_auth").iterdir() if path.is_file()}
    assert "platform_auth/py.typed" in sources
    assert {name for name in names if not name.startswith("platform_auth-")} == sources
    assert any(name.endswith("LICENSE") for name in names)


def test_the_wheel_works_in_a_fresh_environment_with_the_oldest_dependencies(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    # The pip of these tests installs into it, because installing another pip would take seconds of CPU.
    venv.create(environment)
    python = str(environment / "bin/python")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    # "h11>=0.14,<1" is installed as h11==0.14.
    oldest = [dependency.split(",")[0].replace(">=", "==") for dependency in project["dependencies"]]
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    run(*install, str(wheel), *oldest, cwd=tmp_path)
    printed = run(python, "-I", "-c", PROGRAM, cwd=tmp_path)
    assert printed.split()[0] == project["version"]
    assert len(oldest) == 3
