"""A destination that answers as it is told, path by path, and remembers what came."""

import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    def __init__(self):
        self.modes, self.came, self.headers = {}, defaultdict(list), {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = self.path.split("?")[0]
                outer.headers[path] = {name.lower(): value for name, value in self.headers.items()}
                outer.came[path].append((self.headers.get("webhook-id"), body))
                status, headers, text = outer.answer(path)
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass  # nobody waits for it any more

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def set(self, path, status, headers=None, body=b"{}", delay=0.0):
        self.modes[path] = (status, headers or {}, body, delay)

    def answer(self, path):
        status, headers, body, delay = self.modes.get(path, (200, {}, b"{}", 0.0))
        if delay:
            time.sleep(delay)
        return status, headers, body

    def last(self, path):
        """The headers of the newest request, by their names in lower case."""
        return self.headers[path]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
