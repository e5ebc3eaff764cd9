"""Receivers that want to know who sends: by a certificate, or by a signature of AWS that botocore computes once more."""

import datetime
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class Receiver:
    """Keeps what comes: path, headers, payload, the number of the connection and whose certificate was shown."""

    def __init__(self, tls=None, judge=None):
        self.came, self.lock, self.connections = [], threading.Lock(), 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                if tls:
                    self.request = tls.wrap_socket(self.request, server_side=True)
                super().setup()
                with outer.lock:
                    outer.connections += 1
                    self.number = outer.connections

            def do_POST(self):
                payload = self.rfile.read(int(self.headers["content-length"]))
                shown = self.request.getpeercert() if tls else None
                subject = dict(pair for part in shown["subject"] for pair in part)["commonName"] if shown else None
                verdict = judge(self, payload) if judge else None
                with outer.lock:
                    outer.came.append({"path": self.path, "headers": dict(self.headers.items()), "payload": payload,
                                       "connection": self.number, "subject": subject, "verdict": verdict})
                self.send_response(403 if verdict else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def at(self, path):
        with self.lock:
            return [each for each in self.came if each["path"] == path]


def demanding(server_pem, authorities_pem, highest=ssl.TLSVersion.TLSv1_3):
    """TLS that wants a certificate of one of these authorities."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server_pem)
    tls.load_verify_locations(authorities_pem)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.maximum_version = highest
    return tls


def aws_judge(keys, region, service, token=None):
    """Signs what came once more; says what is wrong, or nothing."""

    def judge(request, payload):
        given = request.headers["authorization"] or ""
        if "SignedHeaders=" not in given:
            return "not signed"
        names = given.split("SignedHeaders=")[1].split(",")[0].split(";")
        if not {"host", "x-amz-date", "content-type", "x-amz-content-sha256"} <= set(names):
            return f"signed are only {names}"
        if request.headers["x-amz-security-token"] != token:
            return "another session token"
        again = AWSRequest(method="POST", url=f"http://{request.headers['host']}{request.path}", data=payload)
        for name in names:
            if name not in ("x-amz-date", "x-amz-security-token"):
                again.headers[name] = request.headers[name]
        moment = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        age = abs((datetime.datetime.utcnow() - moment).total_seconds())
        if age > 60:
            return f"signed {age} s ago"
        with CLOCK:
            botocore.auth.get_current_datetime = lambda *_, **__: moment
            kind = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
            kind(Credentials(*keys, token), service, region).add_auth(again)
        return None if again.headers["Authorization"] == given else f"{given} is not {again.headers['Authorization']}"

    return judge


CLOCK = threading.Lock()
