"""A service built with Flask that exchanges the user's token for one for the next service (RFC 8693) with Authlib."""

import os
from typing import Any

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import get_well_known_url
from flask import Flask, request

TIMEOUT_SECONDS = 3
issuer = os.environ["JWT_ISSUER"]
metadata = requests.get(get_well_known_url(issuer, external=True), timeout=TIMEOUT_SECONDS).json()
if metadata["issuer"] != issuer:
    raise ValueError("The metadata is that of another issuer")
app = Flask(__name__)


def exchange(token: str, audience: str, scope: str) -> dict[str, Any]:
    """Raises OAuthError when platform-auth refused. Any other error means that it could not be asked."""
    with OAuth2Session(os.environ["AUTH_APP_ID"], os.environ["AUTH_APP_KEY"]) as session:
        # The proxy of the environment would see the key and the token.
        session.trust_env = False
        return session.fetch_token(
            metadata["token_endpoint"],
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token=token,
            subject_token_type="urn:ietf:params:oauth:token-type:access_token",
            audience=audience,
            scope=scope,
            timeout=TIMEOUT_SECONDS,
        )


@app.get("/")
def read_token() -> tuple[dict[str, Any], int]:
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    try:
        # A service of yours names the next service and the scope itself, and keeps the token.
        return exchange(token, request.args["audience"], request.args["scope"]), 200
    except OAuthError as refusal:
        # Only the user's token can be wrong with a request that is always built in the same way.
        return {"error": refusal.error}, 401 if refusal.error == "invalid_request" else 503
    except Exception:
        app.logger.exception("platform-auth could not be asked")
        return {}, 503
