"""A service that reads text from photos, which nodes send and `documents` keeps. Its environment is the file that `init` wrote."""

import os

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request
from platform_auth import App, DelegatedUserPrincipal, Node, Verifier

auth = Verifier.from_environment()
app = FastAPI()
own_key = {"X-Platform-App-Id": os.environ["RECIPES_APP_ID"], "X-Platform-App-Key": os.environ["RECIPES_APP_KEY"]}
recipes = httpx.AsyncClient(base_url=os.environ["RECIPES_URL"], headers=own_key, timeout=5, trust_env=False)
documents = httpx.AsyncClient(base_url=os.environ["DOCUMENTS_URL"], timeout=5, trust_env=False)


@app.post("/photos")
async def read_photo(request: Request, node: Node = Depends(auth.node)) -> dict[str, object]:
    text = (await request.body()).decode(errors="replace")  # a photo of this text
    try:
        answer = await recipes.post("/drafts", json={"text": text})
    except httpx.TransportError:
        raise HTTPException(502, "recipes answered nothing") from None
    if answer.status_code != 201:
        raise HTTPException(502, f"recipes answered {answer.status_code} to the key of ocr")
    return {"household_id": node.household_id, "text": text, "draft": answer.json()["number"]}


@app.get("/languages")
async def languages(caller: App = Depends(auth.app_with("languages:list"))) -> dict[str, object]:
    return {"asked_by": caller.caller, "languages": ["de", "en"]}


@app.get("/texts/latest")
async def read_latest_photo(
    request: Request, user: DelegatedUserPrincipal = Depends(auth.user_with(delegated="only", scope="texts:read"))
) -> dict[str, object]:
    token = await auth.token_for(request.headers, "documents", scope="documents:read")
    try:
        answer = await documents.get("/photos/latest", headers={"Authorization": f"Bearer {token}"})
    except httpx.TransportError:
        raise HTTPException(502, "documents answered nothing") from None
    if answer.status_code != 200:
        raise HTTPException(502, f"documents answered {answer.status_code} for the user")
    found = answer.json()
    return {"reader": user.user_id, "text": found["photo"], "documents_was_asked_by": found["asked_by"]}
