"""Pages that live: rows that come by themselves and never move under the cursor, and a connection that is cut."""

import json
import socket
import threading
import urllib.request

from looking import ROWS, rows
from tab import it, want
from world import trial

# That an account may follow at once.
STREAMS = 50
LIVE = "document.querySelector('#live')?.dataset.state === 'live'"


class Wire:
    """A way to the node that can be cut."""

    def __init__(self, port):
        self.to, self.open, self.whole = ("127.0.0.1", port), set(), True
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                here, _ = self.socket.accept()
            except OSError:
                return
            if not self.whole:
                here.close()
                continue
            try:
                there = socket.create_connection(self.to, 10)
            except OSError:
                here.close()
                continue
            self.open |= {here, there}
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.whole = False
        for end in list(self.open):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def mend(self):
        self.whole = True

    def close(self):
        self.cut()
        self.socket.close()


@trial(short=True)
def rows_come_by_themselves_and_wait_while_somebody_is_at_the_list(world):
    name = world.name("tail")
    world.api.publish(f"{name}.0")
    tab = world.page(f"/events?q=type:{name}.*")
    tab.until(LIVE, "the page is live")
    tab.away()
    world.api.publish(f"{name}.1")
    tab.until(lambda: len(rows(tab)) == 2, "a row comes by itself")
    # Somebody points at the list: nothing moves, and what is new is counted.
    tab.hover(it(ROWS))
    before = tab.ask(f"return all({json.dumps(it(ROWS))}).map(row => [row.dataset.key, row.getBoundingClientRect().top]);")
    for number in range(3):
        world.api.publish(f"{name}.{number + 2}")
    tab.shows(it("#pill", "3 new"))
    after = tab.ask(f"return all({json.dumps(it(ROWS))}).map(row => [row.dataset.key, row.getBoundingClientRect().top]);")
    want([key for key, _ in before] == [key for key, _ in after], "no row has come, gone or changed its place in the list")
    want(before == after, f"no row has moved under the cursor: {before} {after}")
    tab.click(it("#pill"))
    tab.until(lambda: len(rows(tab)) == 5, "the button brings them")
    tab.hides(it("#pill"))
    # Paused: nothing changes at all.
    tab.away()
    tab.click(it("button[data-pause-live]"))
    tab.shows(it("#live[data-state=paused]"))
    event = world.api.publish(f"{name}.5")
    world.api.get(f"/v1/events/{event}")
    want(len(rows(tab)) == 5, "what is paused stands still")
    tab.click(it("button[data-pause-live]"))
    tab.away()
    tab.until(lambda: len(rows(tab)) == 6, "and catches up when it goes on")


@trial(short=True)
def a_page_that_is_cut_off_says_so_and_comes_back(world):
    name = world.name("cut")
    world.page("/")
    wire = Wire(int(world.origin.rsplit(":", 1)[1]))
    try:
        # Cookies know no ports: who is signed in there is signed in here.
        tab = world.tab(origin=wire.origin)
        tab.open(f"/events?q=type:{name}.*")
        tab.until(LIVE, "the page is live")
        tab.away()
        # From here to the end: the wire is cut once more when it is closed.
        tab.allowed += ["ERR_", "Failed to load resource"]
        wire.cut()
        tab.shows(it("#live[data-state=cut]", "/Cut off/"))
        world.api.publish(f"{name}.meanwhile")
        wire.mend()
        tab.until(LIVE, "it comes back by itself", 60)
        tab.until(lambda: len(rows(tab)) == 1, "and has what happened meanwhile")
        world.api.publish(f"{name}.after")
        tab.until(lambda: len(rows(tab)) == 2, "and what happens from then on")
    finally:
        wire.close()


@trial(looks="once")
def a_page_too_many_says_why_it_is_not_live_and_what_helps(world):
    account = world.operator.post("/v1/accounts", {"name": world.name("crowd")})["id"]
    key = world.operator.post("/v1/api-keys", {"kind": "account", "account_id": account, "name": "its own"})["key"]
    follow = {"authorization": f"Bearer {key}"}
    streams = [urllib.request.urlopen(urllib.request.Request(world.origin + "/v1/stream", headers=follow), timeout=20) for _ in range(STREAMS)]
    try:
        tab = world.tab(world.stranger())
        # The page that one comes to first would be live as well.
        with tab.allowing("429"):
            world.sign_in(tab, key)
            tab.open("/events")
            live = it("#live[data-state=cut]", "/too many pages/")
            tab.shows(live)
            said = tab.attribute(live, "title")
            want("end one that is not needed" in said, f"it says what helps: {said}")
            for stream in streams:
                stream.close()
            tab.until(LIVE, "it is live as soon as there is room", 60)
    finally:
        for stream in streams:
            stream.close()


@trial()
def countdowns_go_down_and_the_rate_is_shown(world):
    tab = world.page(f"/destinations/{world.throttling}")
    countdown = it("time[data-countdown]")
    first = tab.until(f"find({json.dumps(countdown)})?.textContent", "a countdown")
    tab.until(lambda: tab.text(countdown) != first, "it goes down")
    tab.shows(it(".banner", "/throttling is throttled.*429/"))
    tab.open("/events")
    tab.until("document.querySelector('[data-event-rate]')?.textContent.endsWith('/s')", "the rate of events is beside them")
