"""A page of the browser, used as a person uses it: by the mouse, the keys and what can be seen. What the browser complains of
is kept, and everything waits for what it needs, with a limit."""

import base64
import json
import os
import re
import time

from devtools import Refused

# Generous: the machine may be busy with something else.
LIMIT = 20
# The library that finds things. A thing is described by {css, text, within, last}: text is the beginning of its name, or
# an /expression/ over it.
LIBRARY = r"""
// What is folded away has a place all the same.
const seen = e => e.getClientRects().length > 0 && e.checkVisibility({ visibilityProperty: true });
const named = e => (e.getAttribute('aria-label') || e.textContent || e.value || '').replace(/\s+/g, ' ').trim();
const said = e => (e.textContent || '').replace(/\s+/g, ' ').trim();
const fits = (e, text) => text == null || [named(e), said(e)].some(name => text.length > 2 && text.startsWith('/') && text.endsWith('/') ? new RegExp(text.slice(1, -1)).test(name) : name.startsWith(text));
const all = ({ css, text, within, hidden }) => {
  const roots = within ? all({ hidden, ...within }) : [document];
  return roots.flatMap(root => [...root.querySelectorAll(css || '*')]).filter(e => (hidden || seen(e)) && fits(e, text));
};
const find = it => { const found = all(it); return it.last ? found.at(-1) : found[0]; };
"""


class Failed(Exception):
    """Something did not happen, or is not as it should be."""


def want(condition, said):
    if not condition:
        raise Failed(said)


def it(css=None, text=None, within=None, **more):
    """A thing on the page."""
    within = it(within) if isinstance(within, str) else within
    return {key: value for key, value in {"css": css, "text": text, "within": within, **more}.items() if value is not None}


KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), "ArrowDown": ("ArrowDown", 40, ""),
        "ArrowUp": ("ArrowUp", 38, ""), "Backspace": ("Backspace", 8, "")}
CTRL, SHIFT = 2, 8


class Tab:
    def __init__(self, browser, origin, context=None, user_agent=None):
        self.browser, self.origin = browser, origin
        self.complaints, self.allowed, self.requests, self.loaded, self.dialogs = [], [], [], set(), []
        self.received = {}
        in_context = {"browserContextId": context} if context else {}
        self.target = browser.call("Target.createTarget", url="about:blank", **in_context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.listeners[self.session] = self.hear
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        # Pages behind others live as those in front do.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        if user_agent:
            self.call("Emulation.setUserAgentOverride", userAgent=user_agent)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def close(self):
        self.browser.listeners.pop(self.session, None)
        self.browser.call("Target.closeTarget", targetId=self.target)

    # --- What the browser says ---------------------------------------------------------------------------------------
    def hear(self, method, said):
        if method == "Page.lifecycleEvent" and said["name"] == "load":
            self.loaded.add(said["loaderId"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(said["message"])
            self.complain(f"dialog: {said['message']}")
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=True)
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complain("console: " + " ".join(str(each.get("value", each.get("description"))) for each in said["args"]))
        elif method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.complain("exception: " + (details.get("exception", {}).get("description") or details.get("text", ""))[:300])
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complain(f"log: {said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            self.requests.append(url)
            if not url.startswith((self.origin + "/", "data:", "about:", "blob:")) and url != self.origin:
                self.complain("foreign request: " + url)
        elif method == "Network.loadingFinished":
            self.received[said["requestId"]] = said["encodedDataLength"]
        elif method == "Audits.issueAdded" and "ContentSecurityPolicy" in said["issue"]["code"]:
            self.complain("content security policy: " + json.dumps(said["issue"]["details"])[:300])

    def complain(self, text):
        if not any(re.search(allowed, text) for allowed in self.allowed):
            self.complaints.append(text)

    def allowing(self, *patterns):
        """What the browser may complain of in the meantime, since it is asked for."""
        return Allowing(self, patterns)

    # --- Looking -----------------------------------------------------------------------------------------------------
    def run(self, script):
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Refused(details.get("exception", {}).get("description", details.get("text"))[:300])
        return answer["result"].get("value")

    def ask(self, body):
        """The value that a function with the library at hand returns."""
        return self.run("(() => {" + LIBRARY + body + "})()")

    def count(self, thing):
        return self.ask(f"return all({json.dumps(thing)}).length;")

    def text(self, thing):
        return self.ask(f"const e = find({json.dumps(thing)}); return e && (e.innerText ?? e.textContent);")

    def attribute(self, thing, name):
        return self.ask(f"const e = find({json.dumps(thing)}); return e && e.getAttribute({json.dumps(name)});")

    def texts(self, thing):
        return self.ask(f"return all({json.dumps(thing)}).map(named);")

    def path(self):
        return self.run("location.pathname + location.search + location.hash")

    def until(self, asked, said, limit=LIMIT):
        """Waits for an expression, or for what a function returns, to be true; gives its value."""
        until, last = time.monotonic() + limit, None
        while True:
            try:
                value = asked() if callable(asked) else self.ask(f"return {asked};")
                if value:
                    return value
                last = value
            except Refused as gone:
                last = gone
            if time.monotonic() > until:
                raise Failed(f"{said}: not within {limit} s ({last!r}) at {self.where()}")
            self.browser.pump(0.05)

    def where(self):
        try:
            return self.run("location.href + ' | ' + document.title + ' | ' + [...document.querySelectorAll('.toast, .problem, .field-problem')].map(e => e.innerText).join(' / ')")
        except Refused:
            return "?"

    def shows(self, thing, limit=LIMIT):
        if isinstance(thing, str):
            thing = it("body", f"/{re.escape(thing)}/")
        return self.until(f"!!find({json.dumps(thing)})", f"shows {thing}", limit)

    def hides(self, thing, limit=LIMIT):
        return self.until(f"!find({json.dumps(thing)})", f"no longer shows {thing}", limit)

    def picture(self, file):
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as into:
            into.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    # --- Going -------------------------------------------------------------------------------------------------------
    def open(self, path, limit=LIMIT):
        """Opens a page and waits until all of it is there."""
        url = self.origin + path if path.startswith("/") else path
        told = self.call("Page.navigate", url=url)
        if told.get("errorText"):
            raise Failed(f"{path}: {told['errorText']}")
        if loader := told.get("loaderId"):
            self.until(lambda: loader in self.loaded, f"{path} is loaded", limit)

    def is_signed_out(self):
        """Whether a page that is asked for is the way in. Asked without going there: the page that is open may be on its way to it
        by itself."""
        return self.path().startswith("/login") or self.run("fetch('/', { redirect: 'manual' }).then(answer => answer.type === 'opaqueredirect')")

    def go(self, path):
        """Opens a page that leads on by itself."""
        self.call("Page.navigate", url=self.origin + path)

    def leaves(self, act, limit=LIMIT):
        """Does something that leads to another page, or to the same anew, and waits for it."""
        self.run("window.trialMark = true")
        act()
        self.until("document.readyState === 'complete' && !window.trialMark", "another page", limit)

    def look(self, theme, width, height=860):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    # --- Acting ------------------------------------------------------------------------------------------------------
    def place(self, thing, limit=LIMIT):
        """The middle of a thing that can be clicked: it is there, in sight and under nothing else."""
        body = f"""
            const e = find({json.dumps(thing)});
            if (!e) return null;
            e.scrollIntoView({{ block: 'center', inline: 'center', behavior: 'instant' }});
            const box = [...e.getClientRects()].sort((a, b) => b.width * b.height - a.width * a.height)[0];
            const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
            const hit = document.elementFromPoint(x, y);
            return hit && (e === hit || e.contains(hit) || hit.contains(e) && hit.closest('label')) ? [x, y] : null;"""
        return self.until(lambda: self.ask(body), f"can be clicked: {thing}", limit)

    def mouse(self, kind, x, y, **more):
        return self.browser.send("Input.dispatchMouseEvent", self.session, type=kind, x=x, y=y, **more)

    def hover(self, thing):
        x, y = self.place(thing)
        self.browser.answer(self.mouse("mouseMoved", x, y))

    def away(self):
        """The mouse off everything."""
        self.browser.answer(self.mouse("mouseMoved", 1, 1))

    def click(self, thing, modifiers=0, limit=LIMIT):
        x, y = self.place(thing, limit)
        # Sent in one go: what lives must not change between down and up.
        button = {"button": "left", "clickCount": 1, "modifiers": modifiers}
        sent = [self.mouse("mouseMoved", x, y), self.mouse("mousePressed", x, y, **button),
                self.mouse("mouseReleased", x, y, **button)]
        for number in sent:
            self.browser.answer(number)

    def drag(self, thing, start, end):
        """Over a thing from one part of its width to another."""
        self.place(thing)
        left, top, width, height = self.ask(f"const b = find({json.dumps(thing)}).getBoundingClientRect(); return [b.left, b.top, b.width, b.height];")
        y = top + height / 2
        for kind, part, more in (("mouseMoved", start, {}), ("mousePressed", start, {"button": "left", "clickCount": 1}),
                                 ("mouseMoved", (start + end) / 2, {"buttons": 1}), ("mouseMoved", end, {"buttons": 1}),
                                 ("mouseReleased", end, {"button": "left", "clickCount": 1})):
            self.browser.answer(self.mouse(kind, left + width * part, y, **more))

    def press(self, key, modifiers=0):
        name, code, text = KEYS[key] if key in KEYS else (key, ord(key.upper()), key)
        if modifiers & CTRL:
            text = ""
        about = {"key": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def fill(self, thing, text):
        """Types into a field what it then holds; chooses in a list."""
        self.place(thing)
        kind = self.ask(f"const e = find({json.dumps(thing)}); e.focus(); e.select?.(); return e.tagName;")
        if kind == "SELECT":
            self.ask(f"const e = find({json.dumps(thing)}); e.value = {json.dumps(text)}; e.dispatchEvent(new Event('change', {{ bubbles: true }}));")
        elif text == "":
            self.press("Backspace")
        else:
            self.call("Input.insertText", text=text)
        held = self.ask(f"return find({json.dumps(thing)}).value;")
        want(held == text, f"{thing} holds {held!r} instead of {text!r}")

    def field(self, name, **more):
        return it(f"[name='{name}']", **more)

    def confirms(self, said=None):
        """Says yes to what is asked, once it is what it should be."""
        dialog = it("dialog#confirm[open]")
        self.shows(dialog)
        text = self.text(dialog)
        if said:
            want(re.search(said, text), f"the question is {text!r}, and not about {said}")
        self.click(it("#confirm-yes", within=dialog))
        return text

    def toast(self, text):
        self.shows(it("#toasts .toast", text))


class Allowing:
    def __init__(self, tab, patterns):
        self.tab, self.patterns = tab, list(patterns)

    def __enter__(self):
        self.tab.allowed += self.patterns

    def __exit__(self, *_):
        # What is on its way still belongs to it.
        self.tab.browser.pump(0.2)
        self.tab.browser.pump(0.05)
        for each in self.patterns:
            self.tab.allowed.remove(each)
