"""A service with a guard on each route, for the tests of the guard. The routes are those of cases.ts."""
import os

from fastapi import Depends, FastAPI
from fastapi_guard import Guard, install

app = FastAPI()
install(app)

ROUTES = {
    "/user": ("user", None),
    "/app": ("app", None),
    "/node": ("node", None),
    "/documents": ("app", "documents:read"),
    "/images": ("app", "images:write"),
}

for path, (door, scope) in ROUTES.items():
    guard = Guard(door, os.environ["AUTH_URL"], "recipes", scope)

    @app.get(path)
    async def read_caller(caller: dict = Depends(guard)) -> dict:
        return caller
