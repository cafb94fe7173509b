"""A FastAPI service that embeds a verifier, with the variables of `platform-auth init`."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from platform_auth import NodePrincipal, Verifier

ANSWER = {"recipes": [{"id": 1, "title": "Soup"}]}
app = FastAPI()
auth = Verifier.from_environment()


async def do_nothing(_request: Request) -> None:
    """FastAPI's own cost of a dependency."""


@app.get("/plain")
async def plain() -> Any:
    return ANSWER


@app.get("/dependency")
async def dependency(_nothing: Annotated[None, Depends(do_nothing)]) -> Any:
    return ANSWER


@app.get("/guarded")
async def guarded(_caller: Annotated[NodePrincipal, Depends(auth.node)]) -> Any:
    return ANSWER
