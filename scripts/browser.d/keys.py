"""The keyboard, the palette and the themes."""

import json

from signing_in import open_menu
from looking import ROWS, rows
from tab import CTRL, it, want
from world import trial

GOES = {"o": "/", "e": "/events", "d": "/destinations", "l": "/dead-letters", "r": "/replays", "s": "/sources", "u": "/routes",
        "t": "/settings", "a": "/docs"}


def focused(tab):
    return tab.run("document.activeElement.closest('tr[data-key]')?.dataset.key || ''")


@trial(short=True)
def every_single_key_does_what_the_help_says(world):
    tab = world.page("/events?q=type:order.*")
    tab.press("?")
    tab.shows(it("dialog#help[open]"))
    tab.press("Escape")
    tab.hides(it("dialog#help[open]"))
    tab.press("/")
    tab.until("document.activeElement.id === 'search'", "/ searches")
    value = tab.run("document.activeElement.value")
    tab.press("j")
    want(len(tab.run("document.activeElement.value")) == len(value) + 1, "a key in a field is a letter")
    tab.press("Escape")
    tab.until("document.activeElement.id !== 'search'", "Esc leaves the field")
    shown = rows(tab)
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        tab.press(key)
        tab.until(lambda: focused(tab) == shown[at], f"{key} moves to row {at}")
    tab.press("x")
    tab.shows(it("#selection-count", "1"))
    tab.press("j")
    tab.press("j")
    tab.press("X", 8)
    tab.shows(it("#selection-count", "3"))
    tab.press("r")
    tab.shows(it("dialog#confirm[open]", "/Replay 3 events/"))
    tab.press("Escape")
    tab.hides(it("dialog#confirm[open]"))
    tab.until(lambda: focused(tab) == shown[3], "the focus is back where it was")
    tab.press("Enter")
    tab.shows(it("#detail .event-head"))
    tab.press("Escape")
    tab.hides(it("#detail .event-head"))
    tab.press("p")
    tab.shows(it("#live[data-state=paused]"))
    tab.press("p")
    tab.until("document.querySelector('#live').dataset.state === 'live'", "p goes on")
    theme = lambda: tab.run("document.documentElement.dataset.theme || ''")
    before = theme()
    tab.press("d")
    tab.until(lambda: theme() != before, "d changes the theme")
    tab.press("d")
    tab.press("d")
    tab.until(lambda: theme() == before, "and comes round")
    tab.open(f"/destinations/{world.well}")
    tab.press("t")
    tab.shows(it("#test-form"))
    tab.open(f"/events/{world.lost[0]}")
    tab.press("r")
    tab.shows(it("dialog#confirm[open]", "/Replay this event/"))
    tab.press("Escape")


@trial()
def g_and_a_letter_go_to_every_screen(world):
    tab = world.page("/")
    for letter, path in GOES.items():
        tab.press("g")
        tab.leaves(lambda: tab.press(letter))
        want(tab.path() == path, f"g {letter} goes to {path}: {tab.path()}")
    # By the mouse as well.
    for path in GOES.values():
        open_menu(world, tab)
        tab.leaves(lambda: tab.click(it(f"nav a[href='{path}']")))
        want(tab.path() == path, f"the side leads to {path}: {tab.path()}")


@trial()
def single_keys_can_be_switched_off(world):
    tab = world.page("/events")
    tab.press("?")
    tab.click(it("dialog#help [data-single-keys]"))
    tab.press("Escape")
    tab.press("/")
    tab.press("g")
    tab.press("d")
    want(tab.run("document.activeElement.id") != "search" and tab.path() == "/events", "no single key does anything")
    tab.press("k", CTRL)
    tab.shows(it("dialog#palette[open]"))
    tab.press("Escape")
    tab.click(it("button[data-help]"))
    tab.click(it("dialog#help [data-single-keys]"))
    tab.press("Escape")
    tab.press("/")
    tab.until("document.activeElement.id === 'search'", "and they come back")


@trial(short=True)
def the_palette_goes_anywhere(world):
    tab = world.page("/")
    palette = it("dialog#palette[open]")

    def types(text):
        tab.press("k", CTRL)
        tab.shows(palette)
        tab.fill(it("#palette-input"), text)
    types("dead")
    tab.press("ArrowDown")
    tab.press("ArrowUp")
    tab.leaves(lambda: tab.press("Enter"))
    want(tab.path() == "/dead-letters", f"it goes to a screen: {tab.path()}")
    types(world.lost[0])
    tab.leaves(lambda: tab.press("Enter"))
    want(tab.path().startswith(f"/events/{world.lost[0]}"), f"to an id: {tab.path()}")
    types("type:order.lost")
    tab.leaves(lambda: tab.click(it("#palette-list [role=option]", "Search for")))
    want("q=type" in tab.path() and len(rows(tab)) >= 3, f"to a search: {tab.path()}")
    types("orange")
    tab.press("Enter")
    tab.hides(palette)
    tab.until("document.documentElement.dataset.colours === 'safe'", "other colours")
    tab.open("/")
    tab.until("document.documentElement.dataset.colours === 'safe'", "which stay")
    types("orange")
    tab.press("Enter")
    tab.press("k", CTRL)
    tab.shows(palette)
    tab.press("Escape")
    tab.hides(palette)


@trial()
def a_theme_is_kept_and_set_before_anything_is_painted(world):
    tab = world.page("/")
    chosen = lambda: tab.run("document.documentElement.dataset.theme || 'system'")
    colours = {}
    for _ in range(3):
        tab.click(it("button[data-theme-switch]"))
        theme = chosen()
        # Seen by a script that runs before any of the page's own that may come later than the first paint.
        tab.call("Page.addScriptToEvaluateOnNewDocument", source="""
            new MutationObserver((_, it) => { if (document.body) { window.themeAtBody = document.documentElement.dataset.theme || 'system'; it.disconnect(); } }).observe(document, { childList: true, subtree: true });""")
        tab.open("/events")
        want(tab.run("window.themeAtBody") == theme == chosen(), f"{theme} is there before the page is: {tab.run('window.themeAtBody')}")
        colours[theme] = tab.run("getComputedStyle(document.documentElement).backgroundColor")
        tab.open("/")
    want(set(colours) == {"system", "light", "dark"} and colours["light"] != colours["dark"], f"themes differ: {colours}")
    want(tab.attribute(it("button[data-theme-switch]"), "aria-label"), "the button says which one")
