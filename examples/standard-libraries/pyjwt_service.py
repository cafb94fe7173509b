"""A service built with Flask that verifies access tokens with PyJWT. docs/integrate-standard-libraries.md says what that cannot do."""

import os
from typing import Any

import jwt
from flask import Flask, Response, abort, request

keys = jwt.PyJWKClient(
    os.environ["AUTH_JWKS_URL"],
    cache_keys=False,  # That cache has no end, and would keep a revoked key.
    lifespan=float(os.environ.get("KEYS_MAX_AGE_SECONDS", "300")),
    timeout=3,
)
app = Flask(__name__)


def verify(token: str) -> dict[str, Any]:
    """Raises jwt.InvalidTokenError for a token that is not valid. Any other error means that the keys could not be read."""
    header = jwt.get_unverified_header(token)
    if header.get("alg") != "ES256" or not isinstance(header.get("kid"), str):
        raise jwt.InvalidTokenError
    required = ["exp", "sub", "sid"]
    key = find_key(header["kid"])
    return jwt.decode(token, key, algorithms=["ES256"], issuer=os.environ["JWT_ISSUER"], options={"require": required})


def find_key(kid: str) -> jwt.PyJWK:
    for refresh in (False, True):
        for key in keys.get_signing_keys(refresh=refresh):
            if key.key_id == kid:
                return key
    raise jwt.InvalidTokenError


@app.get("/")
def read_user() -> dict[str, str]:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise jwt.InvalidTokenError
        return {"user_id": verify(token)["sub"]}
    except jwt.InvalidTokenError:
        abort(Response(status=401, headers={"WWW-Authenticate": "Bearer"}))
    except Exception:
        app.logger.exception("The keys could not be read")
        abort(Response(status=503, headers={"Retry-After": "1"}))
