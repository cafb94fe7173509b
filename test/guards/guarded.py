"""A service with a route for each door, for the tests of the guard."""
import os

from fastapi import Depends, FastAPI
from fastapi_guard import Guard, install

app = FastAPI()
install(app)

for door in ("user", "app", "node"):
    guard = Guard(door, os.environ["AUTH_URL"], "recipes")

    @app.get(f"/{door}")
    async def read_caller(caller: dict = Depends(guard)) -> dict:
        return caller
