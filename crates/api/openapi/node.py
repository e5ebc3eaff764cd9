"""A node to try clients on: the built binary in a folder of its own, and a receiver that keeps what it gets. Both listen on
the loopback address alone."""

import os
import re
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Answers 200 to everything, and keeps the headers and the body of each request."""

    def __init__(self):
        self.requests = []
        kept = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                kept.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Node:
    """`serve --dev` until the block ends; with the keys of an account and of the operator."""

    def __init__(self, binary):
        self.binary = os.path.abspath(binary)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        ours = ("POSTHASTE_", "OTEL_", "DATABASE_URL")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment["POSTHASTE_LOG"] = "warn"
        made = subprocess.run([self.binary, "keys", "generate", "--kind", "operator"], capture_output=True, text=True, check=True)
        self.operator_key = self.environment["POSTHASTE_BOOTSTRAP_OPERATOR_KEY"] = made.stdout.strip()
        self.process = subprocess.Popen(
            [self.binary, "serve", "--dev", "--listen", "127.0.0.1:0"],
            cwd=self.folder.name, env=self.environment, stdout=subprocess.PIPE, text=True,
        )
        greeting = ""
        for line in self.process.stdout:
            greeting += line
            if line.startswith("curl "):
                break
        self.url = re.search(r"listening on (\S+)", greeting).group(1)
        self.key = re.search(r"Bearer ([^']+)", greeting).group(1)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def is_alive(self):
        return self.process.poll() is None

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()
