"""Chromium, driven by its DevTools protocol over the pipe of --remote-debugging-pipe: no port that others could find, and
nothing needed but Python's own library."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWERED_WITHIN = 60


def chromium():
    """The program: the one that is there, or Debian's package, installed when run as root."""
    def found():
        return next((path for name in NAMES if (path := shutil.which(name))), None)
    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Debian's chromium", file=sys.stderr)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=True, env=quiet, stdout=subprocess.DEVNULL)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], check=True, env=quiet,
                       stdout=subprocess.DEVNULL)
    return found() or sys.exit("Chromium is missing: install it, or run this as root on Debian")


class Refused(Exception):
    """The browser answered with an error: often that the page in question is gone."""


class Browser:
    """One process. Each context in it has cookies and storage of its own."""

    def __init__(self, folder):
        to_read, to_write = os.pipe(), os.pipe()
        command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
                   "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--window-size=1440,860"]

        def descriptors():
            # Out of the way first: the ends may be 3 and 4 themselves.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_read[0], to_write[1])]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        # A home of its own: what it keeps there goes with the folder.
        self.process = subprocess.Popen(command, preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "HOME": folder})
        os.close(to_read[0])
        os.close(to_write[1])
        self.out, self.into, self.rest, self.number = to_read[1], to_write[0], b"", 0
        self.answers, self.listeners = {}, {}

    def send(self, method, session=None, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        text = json.dumps(asked).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        return self.number

    def answer(self, number):
        until = time.monotonic() + ANSWERED_WITHIN
        while number not in self.answers:
            if time.monotonic() > until:
                raise Refused(f"call {number} was not answered")
            self.pump(1)
        told = self.answers.pop(number)
        if "error" in told:
            raise Refused(told["error"].get("message", str(told["error"])))
        return told["result"]

    def call(self, method, session=None, **parameters):
        return self.answer(self.send(method, session, **parameters))

    def pump(self, seconds):
        """Hears what the browser says: waits for the first message, then takes what else is there."""
        while True:
            ready, _, _ = select.select([self.into], [], [], seconds)
            if not ready:
                return
            chunk = os.read(self.into, 1 << 20)
            if not chunk:
                sys.exit("the browser has ended")
            *whole, self.rest = (self.rest + chunk).split(b"\0")
            for text in whole:
                told = json.loads(text)
                if "id" in told:
                    self.answers[told["id"]] = told
                elif listener := self.listeners.get(told.get("sessionId")):
                    listener(told["method"], told["params"])
            if whole:
                return

    def context(self):
        return self.call("Target.createBrowserContext")["browserContextId"]

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
