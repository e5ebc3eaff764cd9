"""axe-core on every page, in both themes: no serious and no critical finding. It comes from the npm registry in a fixed version,
is kept below target, and is put into the page by the debugger, so that our own policy stays as it is."""

import base64
import hashlib
import io
import json
import os
import tarfile
import urllib.request

from node import TARGET
from tab import it
from walking import paths
from world import NARROW, WIDE

VERSION = "4.10.3"
INTEGRITY = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
ADDRESS = f"https://registry.npmjs.org/axe-core/-/axe-core-{VERSION}.tgz"
GRAVE = ("serious", "critical")


def axe():
    """Its text, fetched once."""
    file = os.path.join(TARGET, "axe", f"axe-{VERSION}.min.js")
    if not os.path.exists(file):
        with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
            packed = answer.read()
        if base64.b64encode(hashlib.sha512(packed).digest()).decode() != INTEGRITY:
            raise SystemExit(f"{ADDRESS} is not what it was")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as files, open(file, "wb") as into:
            into.write(files.extractfile("package/axe.min.js").read())
    with open(file, encoding="utf-8") as text:
        return text.read()


def findings(tab, text):
    tab.run(text + "; 0")
    # What the page itself does once it is laid out, it has done by the frame after next.
    found = tab.run("""new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }))
        .then(result => result.violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.length,
            where: nodes.slice(0, 3).map(node => `${node.target.join(' ')}: ${(node.any[0] || node.all[0] || node.none[0])?.message || ''}`) })))""")
    return found


def every_page(world):
    """What is grave, as sentences; the rest is only told."""
    text, wrong, told = axe(), [], {}
    tab = world.tab(world.stranger())
    tab.open("/login")
    pages = [("/login", tab)]
    world.api.post("/v1/sources", {"name": "somebody"})
    world.api.post("/v1/replays", {"filter": {"status": ["dead_letter"], "destination_id": [world.refusing]}, "rate": 1})
    inside = world.page("/")
    pages += [(path, inside) for path in paths(world)]
    for theme, width in (("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW)):
        for path, tab in pages:
            tab.look(theme, width)
            tab.open(path)
            tab.run("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
            if path == "/events":
                tab.run("document.querySelector('[data-pick]')?.click()")
            said = f"{path}, {theme}, {width}"
            shown = [("", None)]
            if path == "/":
                shown += [(", help", "document.querySelector('[data-help]').click()"), (", palette", "document.querySelector('dialog[open]')?.close(); document.dispatchEvent(new Event('palette'))")]
            if "/destinations/dst" in path:
                shown += [(f", {name}", f"document.querySelector('[role=tab][aria-controls={name}]')?.click()") for name in ("settings", "signing", "test", "history")]
            for what, act in shown:
                if act:
                    tab.run(act)
                for each in findings(tab, text):
                    sentence = f"{said}{what}: {each['impact']} {each['id']} × {each['nodes']}: {each['help']}; " + "; ".join(each["where"])
                    if each["impact"] in GRAVE:
                        wrong.append(sentence)
                        print("  " + sentence, flush=True)
                    else:
                        told.setdefault((each["impact"], each["id"], each["help"]), []).append(said)
    for (impact, name, help_), where in told.items():
        print(f"  only told: {impact} {name}: {help_}, {len(where)} times, first {where[0]}", flush=True)
    return wrong + world.finish("accessibility")
