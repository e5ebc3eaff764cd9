"""The server under trial: the real binary, in a folder of its own, on an embedded store or in a schema of PostgreSQL; and its
API, by a key, as any program asks it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from tab import Failed, LIMIT

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"))
READY_WITHIN = 60


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def wait_for(asked, said, limit=LIMIT):
    """Waits for what a function returns to be true; gives it."""
    until = time.monotonic() + limit
    while not (value := asked()):
        if time.monotonic() > until:
            raise Failed(f"{said}: not within {limit} s")
        time.sleep(0.05)
    return value


def wait_until_is(asked, wanted, said, limit=LIMIT):
    """Waits for what a function returns to be this."""
    seen = []

    def is_it():
        seen[:] = [asked()]
        return seen[0] == wanted
    try:
        wait_for(is_it, said, limit)
    except Failed as failed:
        raise Failed(f"{failed}, it is {seen[0]!r}") from None


class Problem(Exception):
    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body[:300]}")
        self.status, self.body = status, body


class Api:
    """The API at one address, by one key."""

    def __init__(self, origin, key):
        self.origin, self.key = origin, key

    def ask(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        given = {"authorization": f"Bearer {self.key}", "content-type": "application/json", **(headers or {})}
        asked = urllib.request.Request(self.origin + path, data, given, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as refused:
            raise Problem(refused.code, refused.read().decode(errors="replace")) from None

    def get(self, path, **query):
        pairs = [(name, each) for name, value in query.items() for each in (value if isinstance(value, list) else [value])]
        return self.ask("GET", path + ("?" + urllib.parse.urlencode(pairs) if pairs else ""))

    def all(self, path, **query):
        return self.get(path, **query)["data"]

    def post(self, path, body=None, **more):
        return self.ask("POST", path, {} if body is None else body, **more)

    def patch(self, path, body):
        return self.ask("PATCH", path, body)

    def delete(self, path):
        return self.ask("DELETE", path)

    def destination(self, name, url, **settings):
        return self.post("/v1/destinations", {"name": name, "url": url, **settings})["id"]

    def route(self, destination, *types, **more):
        return self.post("/v1/routes", {"destination_id": destination, **({"event_types": list(types)} if types else {}), **more})["id"]

    def publish(self, kind, data=None, **more):
        return self.post("/v1/events", {"type": kind, "data": {} if data is None else data, **more})["id"]

    def deliveries(self, **query):
        return self.all("/v1/deliveries", **query)

    def ended(self, event, count=1, limit=LIMIT, to=None):
        """The deliveries of an event, or those to one destination, once they have ended."""
        def found():
            its = self.deliveries(event_id=event, **({"destination_id": to} if to else {}))
            return its if len(its) >= count and all(each["status"] in ("delivered", "dead_letter", "cancelled") for each in its) else None
        return wait_for(found, f"the deliveries of {event} end", limit)


class Store:
    """Where a node keeps things. On PostgreSQL each gets a schema of its own, dropped at the end."""

    def __init__(self, kind):
        self.kind, self.schemas = kind, []
        self.server = os.environ.get("POSTHASTE_TEST_POSTGRES")
        if kind == "postgres" and not self.server:
            raise SystemExit("no PostgreSQL: run by scripts/postgres with …")

    def settings(self):
        if self.kind == "sqlite":
            return {}
        name = f"browser_{os.getpid()}_{len(self.schemas)}"
        self.schemas.append(name)
        return {"POSTHASTE_DATABASE": f"{self.server}?schema={name}"}

    def close(self):
        psql = shutil.which("psql")
        for schema in self.schemas if psql else []:
            subprocess.run([psql, "-q", self.server, "-c", f"drop schema if exists {schema} cascade"], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Node:
    """`posthaste serve`, until it is closed."""

    def __init__(self, binary, settings, *arguments, folder=None):
        self.folder = folder or tempfile.mkdtemp(prefix="posthaste-browser-")
        self.is_own_folder = folder is None
        self.origin = f"http://127.0.0.1:{free_port()}"
        self.command = [binary, *arguments, "--json", "--listen", self.origin[7:]]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("POSTHASTE_", "OTEL_", "DATABASE_URL"))}
        self.environment = {**clean, "POSTHASTE_LOG": "warn", **settings}
        self.log = os.path.join(self.folder, "log")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=open(self.log, "a"), text=True)
        self.said = json.loads(self.process.stdout.readline() or self.failed())
        # Nobody reads the rest, and the pipe must not fill.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        wait_for(self.ready, "the node is ready", READY_WITHIN)

    def failed(self):
        raise Failed(f"the node did not start: {self.tail()}")

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]

    def ready(self):
        try:
            with urllib.request.urlopen(self.origin + "/readyz", timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def panics(self):
        return re.findall(r".*panicked at.*", self.tail())

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def close(self):
        self.stop()
        if self.is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def line(binary, *arguments):
    """What a command prints."""
    return subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout.strip().splitlines()[0]


def installation(binary, store):
    """A node as it is run in production, but that it may call this machine: with a key of an account, a key of the operator, and
    a link that makes the first user."""
    key, operator = line(binary, "keys", "generate"), line(binary, "keys", "generate", "--kind", "operator")
    settings = {
        "POSTHASTE_MASTER_KEYS": line(binary, "keys", "master"), "POSTHASTE_BOOTSTRAP_API_KEY": key,
        "POSTHASTE_BOOTSTRAP_OPERATOR_KEY": operator, "POSTHASTE_EGRESS_ALLOW": "127.0.0.0/8",
        "POSTHASTE_EGRESS_ALLOW_HTTP": "true", "POSTHASTE_BREAKER_FAILURES": "3", "POSTHASTE_BREAKER_OPEN": "60s",
        "POSTHASTE_SHUTDOWN_GRACE": "2s", **store.settings(),
    }
    node = Node(binary, settings, "serve")
    node.key, node.operator_key = key, operator
    node.api, node.operator = Api(node.origin, key), Api(node.origin, operator)
    return node


def development(binary):
    return Node(binary, {}, "serve", "--dev")
