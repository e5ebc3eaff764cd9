"""What trials share: a node with real traffic, a receiver, a browser that is signed in, and how it looks at things."""

import itertools
import os
import re
import threading
import time
import traceback

from node import ROOT, Problem, TARGET, installation
from receiver import Receiver
from tab import Failed, Tab, it, want

PICTURES = os.path.join(TARGET, "browser")
WIDE, NARROW = 1440, 390
TRIALS = []
# Published all the time, so that lists move while they are used.
EVENTS_A_SECOND = 4


def trial(short=False, looks="each"):
    """A sentence that is tried. `looks="once"`: how it looks makes no difference to it."""
    def take(function):
        TRIALS.append((function, short, looks))
        return function
    return take


class World:
    def __init__(self, binary, store, browser, is_short=False):
        self.is_short = is_short
        self.binary, self.store, self.browser = binary, store, browser
        self.receiver = Receiver()
        self.node = installation(binary, store)
        self.api, self.operator, self.origin = self.node.api, self.node.operator, self.node.origin
        self.look, self.tabs, self.complaints, self.numbers = ("light", WIDE), [], [], itertools.count(1)
        self.context = browser.context()
        self.contexts = [self.context]
        self.furnish()
        self.stop_traffic = threading.Event()
        self.traffic = threading.Thread(target=self.publish_steadily, daemon=True)
        self.traffic.start()

    def furnish(self):
        """Destinations that are well, that fail for a while, that refuse and that are throttled."""
        api, receiver = self.api, self.receiver
        retries = {"schedule_seconds": [1, 1], "jitter": 0}
        receiver.set("/well", 200, {"x-answer": "yes"}, b'{"ok":true}')
        receiver.set("/refusing", 404, {}, b'{"error":"there is no such order"}')
        receiver.set("/throttling", 429, {"retry-after": "600"}, b"slow down")
        self.well = api.destination("well", receiver.url("/well"), uid="well")
        self.refusing = api.destination("refusing", receiver.url("/refusing"), retry_policy=retries)
        self.throttling = api.destination("throttling", receiver.url("/throttling"))
        api.route(self.well, "traffic.*", "order.*")
        api.route(self.refusing, "order.lost")
        api.route(self.throttling, "order.many")
        for number in range(12):
            api.publish("order.paid", {"number": number, "amount": 1299}, tags=[f"order-{number}"], metadata={"shop": "north"})
        self.lost = [api.publish("order.lost", {"number": number}) for number in range(3)]
        self.many = api.publish("order.many", {"number": 1})
        for event in self.lost:
            api.ended(event, count=2)

    def publish_steadily(self):
        number = 0
        while not self.stop_traffic.wait(1 / EVENTS_A_SECOND):
            number += 1
            try:
                self.api.publish(f"traffic.{number % 3}", {"number": number})
            except (OSError, Problem):
                pass  # a node that is stopped by a trial

    def name(self, word):
        """One that no trial had before."""
        return f"{word}-{next(self.numbers)}"

    def tab(self, context=None, user_agent=None, origin=None):
        tab = Tab(self.browser, origin or self.origin, context or self.context, user_agent)
        tab.look(*self.look)
        self.tabs.append(tab)
        return tab

    def stranger(self):
        """A browser of its own: nobody is signed in there."""
        context = self.browser.context()
        self.contexts.append(context)
        return context

    def sign_in(self, tab=None, key=None):
        tab = tab or self.tab()
        tab.open("/login")
        if tab.path().startswith("/login"):
            tab.fill(it("#key"), key or self.node.key)
            tab.leaves(lambda: tab.click(it("#login-key button[type=submit]")))
        want(not tab.path().startswith("/login"), "signing in leads on: " + tab.where())
        return tab

    def page(self, path):
        """A page of somebody who is signed in."""
        tab = self.tab()
        tab.open(path)
        if tab.path().startswith("/login"):
            self.sign_in(tab)
            tab.open(path)
        return tab

    @property
    def narrow(self):
        return self.look[1] == NARROW

    def failing(self, word="failing", retries=(1, 1), **settings):
        """A destination of one's own that answers 500, with its path and a type that leads there."""
        name = self.name(word)
        path = f"/{name}"
        self.receiver.set(path, 500, {}, b"out of order")
        policy = {"schedule_seconds": list(retries), "jitter": 0}
        destination = self.api.destination(name, self.receiver.url(path), retry_policy=policy, **settings)
        self.api.route(destination, f"{name}.*")
        return destination, path, name

    def finish(self, name):
        """What the browsers complained of, and nothing left behind."""
        self.browser.pump(0)
        self.close_tabs()
        wrong, self.complaints = [f"{name}: {each}" for each in self.complaints], []
        return wrong

    def close_tabs(self):
        for tab in self.tabs:
            try:
                tab.close()
            except Exception:  # closed by the page itself
                pass
            self.complaints += tab.complaints
        self.tabs = []

    def close(self):
        self.stop_traffic.set()
        self.traffic.join(5)
        wrong = [f"the node panicked: {each}" for each in self.node.panics()]
        self.node.close()
        self.receiver.close()
        return wrong


def run(world, function, look):
    """One trial; gives what is wrong, as sentences."""
    world.look = look
    name = function.__name__.replace("_", " ")
    began = time.monotonic()
    wrong = []
    try:
        function(world)
    except Failed as failed:
        wrong.append(f"{name}: {failed}")
    except Exception:
        wrong.append(f"{name}: {traceback.format_exc()}")
    if wrong:
        for number, tab in enumerate(world.tabs):
            try:
                tab.picture(os.path.join(PICTURES, f"failed-{re.sub(r'[^a-z]+', '-', name)}-{number}.png"))
            except Exception:
                pass
    wrong += world.finish(name)
    print(f"  {'failed' if wrong else 'holds '}  {time.monotonic() - began:5.1f} s  {name}", flush=True)
    for each in wrong:
        print("      " + each.replace("\n", "\n      "), flush=True)
    return wrong
