"""A replica of the service `recipes`, with the Python verifier. Prints its port; ends with its standard input."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from platform_auth import Verifier
from platform_auth.errors import VerificationError

auth = Verifier.from_environment()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            auth.verify_node_sync(self.headers.items())
            status = 200
        except VerificationError as error:
            status = error.to_response().status
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
os._exit(0)
