"""An OAuth 2.0 server of Authlib's, and a receiver behind it that takes its tokens only."""

import base64
import logging
import threading
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector, current_token
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, Response, request
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Client(ClientMixin):
    def __init__(self, client_id, secret, methods):
        self.client_id, self.secret, self.methods = client_id, secret, methods

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return " ".join(each for each in (scope or "").split() if each == "hooks:write")

    def check_redirect_uri(self, redirect_uri):
        return False

    def check_client_secret(self, client_secret):
        return self.secret == client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method in self.methods

    def check_response_type(self, response_type):
        return False

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"


class Token(TokenMixin):
    def __init__(self, client_id, scope, seconds):
        self.client_id, self.scope, self.ends_at, self.revoked = client_id, scope, time.monotonic() + seconds, False

    def check_client(self, client):
        return client.get_client_id() == self.client_id

    def get_scope(self):
        return self.scope

    def get_expires_in(self):
        return self.ends_at - time.monotonic()

    def is_expired(self):
        return time.monotonic() > self.ends_at

    def is_revoked(self):
        return self.revoked

    def get_user(self):
        return None

    def get_client(self):
        return None


class Grant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]


class TokenServer:
    """`/token` gives tokens, `/hook/…` takes them. It counts, and it can be away, slow, or at odds with everybody."""

    def __init__(self, tls, clients, seconds):
        self.seconds, self.tokens, self.lock = seconds, {}, threading.Lock()
        self.clients = {client.client_id: client for client in clients}
        # What /token does instead: a status; and a gate that it waits at.
        self.away, self.gate = None, threading.Event()
        self.gate.set()
        self.refuses_all = False
        self.asked, self.taken, self.refused = 0, [], 0
        app = Flask(__name__)
        app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"client_credentials": seconds}
        server = AuthorizationServer(app, query_client=self.clients.get, save_token=self.save)
        server.register_grant(Grant)
        protector = ResourceProtector()
        outer = self

        class Validator(BearerTokenValidator):
            def authenticate_token(self, token_string):
                return outer.tokens.get(token_string)

        protector.register_token_validator(Validator())

        @app.post("/token")
        def token():
            with self.lock:
                self.asked += 1
            self.gate.wait(30)
            if self.away:
                return Response("away", self.away)
            return server.create_token_response()

        @app.post("/hook/<name>")
        def hook(name):
            try:
                if self.refuses_all:
                    raise PermissionError
                with protector.acquire("hooks:write"):
                    with self.lock:
                        self.taken.append((name, request.headers["webhook-id"], current_token.client_id))
                    return Response("", 204)
            except Exception:  # noqa: BLE001: whatever it is, it is a refusal
                with self.lock:
                    self.refused += 1
                return Response("no", 401, {"www-authenticate": "Bearer"})

        self.server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=tls)
        self.server.protocol_version = "HTTP/1.1"
        self.origin = f"https://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def save(self, token, asked):
        with self.lock:
            self.tokens[token["access_token"]] = Token(asked.client.client_id, token.get("scope", ""), self.seconds)

    def revoke(self):
        with self.lock:
            for token in self.tokens.values():
                token.revoked = True

    def auth(self, client, secret, **more):
        return {"type": "oauth2", "token_url": f"{self.origin}/token", "client_id": client, "client_secret": secret,
                "scope": "hooks:write", **more}


def basic(client, secret):
    return "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
