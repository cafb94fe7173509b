"""A service behind real servers: /async (FastAPI) and /sync (Flask) answer with the id of their process."""

import os

from fastapi import Depends, FastAPI
from flask import Flask

from platform_auth import Node, Verifier
from platform_auth.flask import require_node

auth = Verifier.from_environment()
if os.environ.get("STARTS_BEFORE_FORK"):
    auth.start()
asgi = FastAPI()
wsgi = Flask(__name__)


@asgi.get("/")
async def answer(_caller: Node = Depends(auth.node)) -> int:
    return os.getpid()


@wsgi.get("/")
@require_node(auth)
def answer_sync() -> str:
    return str(os.getpid())
