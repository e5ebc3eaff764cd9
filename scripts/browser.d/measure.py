"""Figures: how many bytes a page is, whether the live tail stays smooth under load, and what a dashboard that is watched costs the
node. They mean something on a release build and on a machine that does nothing else."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from types import SimpleNamespace

from devtools import Browser
from node import Problem, Store, TARGET, free_port, installation
from tab import Failed, Tab, it
from walking import paths
from world import WIDE

PAGE_BYTES = 150_000
LONG_TASK_MS = 50
TAIL_RATE, TAIL_SECONDS = 1_000, 30
WATCHED_RATE, WATCHED_SECONDS, WATCHED_SHARE = 100, 20, 0.02
TICKS = os.sysconf("SC_CLK_TCK")


class Bench:
    """A node, a receiver that takes everything, and a browser that is signed in."""

    def __init__(self, binary, kind):
        self.folder = tempfile.mkdtemp(prefix="posthaste-measure-")
        self.store, self.browser = Store(kind), Browser(self.folder)
        self.node = installation(binary, self.store)
        self.api, self.port = self.node.api, free_port()
        # In a file: a pipe that nobody empties would stop it.
        self.receiver = subprocess.Popen([binary, "listen", "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stop = threading.Event()

    def furnish(self):
        destination = self.api.destination("receiver", f"http://127.0.0.1:{self.port}/", max_concurrency=50)
        self.api.route(destination, "tail.*")
        return destination

    def tab(self, path):
        tab = Tab(self.browser, self.node.origin)
        tab.look("light", WIDE)
        tab.call("Page.addScriptToEvaluateOnNewDocument", source="""
            window.longTasks = [];
            new PerformanceObserver(list => list.getEntries().forEach(each => window.longTasks.push([Math.round(each.startTime), Math.round(each.duration)]))).observe({ type: 'longtask', buffered: true });""")
        tab.open("/login")
        if tab.path().startswith("/login"):
            tab.fill(it("#key"), self.node.key)
            tab.leaves(lambda: tab.click(it("#login-key button[type=submit]")))
        tab.open(path)
        return tab

    def publish(self, rate, seconds):
        """So many events a second, some at a time; gives how many were taken."""
        each, taken, began = max(1, rate // 20), 0, time.monotonic()
        number = 0
        while (now := time.monotonic()) < began + seconds and not self.stop.is_set():
            if taken < (now - began) * rate:
                events = [{"type": f"tail.{(number + at) % 7}", "data": {"number": number + at}} for at in range(each)]
                number += each
                try:
                    self.api.post("/v1/events/batch", {"events": events})
                    taken += each
                except Problem:
                    pass
            else:
                self.stop.wait(0.005)
        return taken / (time.monotonic() - began)

    def cpu(self):
        """Seconds that the node has used."""
        with open(f"/proc/{self.node.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def close(self):
        self.stop.set()
        self.receiver.terminate()
        self.receiver.wait(10)
        self.node.close()
        self.browser.close()
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def pages_are_light(bench):
    """Each page with everything that it loads, for the first time, in an account with little in it."""
    bench.furnish()
    api = bench.api
    refusing = api.destination("refusing", "http://127.0.0.1:9/", retry_policy={"schedule_seconds": []})
    api.route(refusing, "order.*")
    events = [api.publish("order.lost", {"number": number}) for number in range(3)]
    for event in events:
        api.ended(event)

    kept = SimpleNamespace(api=api, lost=events, many=events[0], well=refusing, throttling=refusing, refusing=refusing)
    tab = bench.tab("/")
    tab.call("Network.setCacheDisabled", cacheDisabled=True)
    found, wrong = {}, []
    for path in paths(kept):
        tab.open("about:blank")
        tab.received.clear()
        tab.open(path)
        # What is loaded after the page itself, such as the list of sessions, is part of it.
        bench.browser.pump(0.3)
        bench.browser.pump(0.1)
        found[path] = sum(tab.received.values())
        if found[path] > PAGE_BYTES:
            wrong.append(f"{path} has {found[path]} bytes")
    for path, size in sorted(found.items(), key=lambda each: -each[1]):
        print(f"  {size:8,} bytes  {path}")
    return wrong


def tail_is_smooth(bench):
    """The list of events, live, while a thousand come in each second."""
    bench.furnish()
    tab = bench.tab("/events")
    tab.until("document.querySelector('#live')?.dataset.state === 'live'", "the page is live")
    tab.run("window.longTasks.length = 0")
    rate = [0]
    load = threading.Thread(target=lambda: rate.__setitem__(0, bench.publish(TAIL_RATE, TAIL_SECONDS)))
    load.start()
    shown = []
    while load.is_alive():
        bench.browser.pump(0.5)
        if not shown or time.monotonic() > shown[-1][0] + 5:
            shown.append((time.monotonic(), tab.run("document.querySelector('[data-event-rate]')?.textContent")))
    tasks = tab.run("window.longTasks")
    print(f"  {rate[0]:.0f} events/s taken, the page says {[each for _, each in shown]}")
    print(f"  tasks above {LONG_TASK_MS} ms: {[length for _, length in tasks]}")
    wrong = [f"a task of {length} ms, {at} ms after the start of the page" for at, length in tasks if length > LONG_TASK_MS]
    if rate[0] < TAIL_RATE * 0.9:
        wrong.append(f"only {rate[0]:.0f} events/s could be made")
    return wrong


def watching_is_cheap(bench):
    """The node's CPU with and without somebody who watches, in turn, under the same load."""
    bench.furnish()
    tab = bench.tab("/login")
    load = threading.Thread(target=lambda: bench.publish(WATCHED_RATE, 10_000))
    load.start()
    wrong = []
    try:
        for path in ("/events", "/"):
            used = {True: [], False: []}
            for watched in (False, True, False, True, False, True):
                tab.open(path if watched else "about:blank")
                until(bench, 3)
                before, began = bench.cpu(), time.monotonic()
                until(bench, WATCHED_SECONDS)
                used[watched].append((bench.cpu() - before) / (time.monotonic() - began))
            mean = {watched: sum(each) / len(each) for watched, each in used.items()}
            share = mean[True] - mean[False]
            each = ", ".join(f"{value:.1%}" for value in used[False]) + " alone; " + ", ".join(f"{value:.1%}" for value in used[True]) + " watched"
            print(f"  {path}: {share:.2%} of a core at {WATCHED_RATE} events/s ({each})")
            if share > WATCHED_SHARE:
                wrong.append(f"watching {path} costs {share:.2%} of a core")
    finally:
        bench.stop.set()
        load.join(30)
    return wrong


def until(bench, seconds):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        bench.browser.pump(0.2)


FIGURES = {"bytes": pages_are_light, "tail": tail_is_smooth, "watcher": watching_is_cheap}


def all_figures(asked, stores, binary):
    wrong = []
    print(f"measured on {binary}")
    for kind in stores:
        for name, figure in FIGURES.items():
            if asked not in ("all", name):
                continue
            print(f"{name}, {kind}", flush=True)
            bench = Bench(binary, kind)
            try:
                found = figure(bench)
            except Failed as failed:
                found = [str(failed)]
            finally:
                bench.close()
            wrong += [f"{name}, {kind}: {each}" for each in found]
    for each in wrong:
        print(each)
    print("figures:", "all as they should be" if not wrong else f"{len(wrong)} are not")
    return bool(wrong)


def release():
    """The release build, if there is one."""
    built = os.path.join(TARGET, "release", "posthaste")
    return built if os.path.exists(built) else os.path.join(TARGET, "debug", "posthaste")
