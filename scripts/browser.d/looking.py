"""Events: looked for, looked at, and sent again."""

import json
import time
import urllib.parse

from node import wait_for, wait_until_is
from tab import SHIFT, it, want
from world import trial

ROWS = "#rows tbody tr[data-key]"


def an_hour_ago():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))


def rows(tab):
    return tab.ask(f"return all({json.dumps(it(ROWS))}).map(row => row.dataset.key);")


def search(tab, text):
    tab.fill(it("#search"), text)
    tab.leaves(lambda: tab.press("Enter"))


@trial(short=True)
def what_is_searched_for_stands_in_the_address_and_is_what_the_api_finds(world):
    tab = world.page("/events")
    for text, path, query in (
        ("tag:order-7", "/v1/events", {"tag": "order-7"}),
        ("type:order.lost", "/v1/events", {"type": "order.lost"}),
        ("metadata.shop:north type:order.* since:1h", "/v1/events", {"metadata.shop": "north", "type": "order.*", "since": an_hour_ago()}),
        ("status:dead_letter destination:refusing since:1h", "/v1/deliveries", {"status": "dead_letter", "destination_id": world.refusing}),
        ("http_status:404", "/v1/deliveries", {"http_status": 404}),
    ):
        search(tab, text)
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(tab.path()).query)
        want(asked.get("q") == [text], f"the search stands in the address: {tab.path()}")
        found = [each["id"] for each in world.api.all(path, limit=50, **query)]
        shown = tab.until(lambda: rows(tab), f"{text} finds something")
        want(set(shown) & set(found) and (len(found) == 50 or set(found) <= set(shown)), f"{text}: {shown} and the API: {found}")
    # The same from its address alone.
    again = world.page("/events?q=" + urllib.parse.quote("tag:order-7"))
    want(len(rows(again)) == 1, "a search can be opened by its address")
    want(again.ask("return find({css: '#search'}).value;") == "tag:order-7", "the box has it")


@trial(short=True)
def a_mistake_in_a_search_is_said_and_an_id_alone_opens_what_it_names(world):
    tab = world.page("/events")
    search(tab, "staatus:dead_letter")
    tab.shows(it("[role=alert]", "/staatus/"))
    search(tab, "status:deceased")
    tab.shows(it("[role=alert]", "/deceased/"))
    search(tab, world.lost[0])
    want(tab.path().startswith(f"/events/{world.lost[0]}"), f"an event's id leads to it: {tab.path()}")
    search(tab, world.well)
    want(tab.path().startswith(f"/destinations/{world.well}"), f"a destination's id leads to it: {tab.path()}")
    tab.open(f"/e/{world.lost[0]}")
    want(tab.path().startswith(f"/events/{world.lost[0]}"), "a log line's link leads there too")


@trial()
def words_are_completed_as_they_are_typed(world):
    tab = world.page("/events")
    tab.fill(it("#search"), "sta")
    tab.shows(it("#completions [role=option]", "status:"))
    tab.press("ArrowDown")
    tab.press("Enter")
    want(tab.ask("return find({css: '#search'}).value;") == "status:", "the word is completed")
    tab.call("Input.insertText", text="dead")
    tab.shows(it("#completions [role=option]", "status:dead_letter"))
    tab.press("ArrowDown")
    tab.press("Enter")
    want(tab.ask("return find({css: '#search'}).value.trim();") == "status:dead_letter", "the value is completed")
    tab.leaves(lambda: tab.press("Enter"))
    want("q=status" in tab.path(), "and searched for")


@trial()
def a_time_dragged_over_the_histogram_is_searched(world):
    tab = world.page("/events")
    plot = it("[data-chart][data-brush] .plot")
    tab.until(lambda: tab.count(plot) or (tab.open("/events"), 0)[1], "the histogram is there", 90)
    tab.leaves(lambda: tab.drag(plot, 0.3, 0.9))
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(tab.path()).query)["q"][0]
    want("since:" in asked and "until:" in asked, f"the time is searched: {asked}")


@trial(short=True)
def an_event_opens_beside_the_list_and_closes(world):
    tab = world.page("/events?q=type:order.lost")
    row = it(f"tr[data-event='{world.lost[1]}']")
    tab.click(it(".row-link", within=row))
    pane = it("#detail", f"/{world.lost[1]}|order.lost/")
    tab.shows(pane)
    tab.until("location.search.includes('selected=')", "what is open stands in the address")
    tab.shows(it("#detail", "/HTTP 404/"))
    tab.press("Escape")
    tab.hides(pane)
    want("selected=" not in tab.path(), "and no longer when it is closed")


@trial(short=True)
def an_event_has_every_attempt_and_is_replayed_to_one_and_to_all(world):
    destination, path, name = world.failing(retries=(1,))
    event = world.api.publish(f"{name}.paid", {"amount": 1299})
    delivery = world.api.ended(event, to=destination)[0]
    attempts = world.api.get(f"/v1/deliveries/{delivery['id']}")["attempts"]
    tab = world.page(f"/events/{event}")
    lane = f"section[id='{delivery['id']}']"
    shown = tab.texts(it(f"{lane} .attempt-head", "Attempt"))
    want(len(shown) == len(attempts) == 2, f"every attempt is shown: {shown}, and the API: {attempts}")
    tab.shows(it(lane, "/HTTP 500/"))
    tab.click(it("summary", "Request and response", within=lane))
    tab.shows(it("pre", "/webhook-signature/", within=lane))
    tab.shows(it("pre", "/out of order/", within=lane))
    tab.click(it("[role=tab][aria-controls=raw]"))
    tab.shows(it("#raw", '/\\{"amount": 1299\\}/'))
    tab.shows(it(".matching", "/Sent to/"))

    world.receiver.set(path, 200)
    tab.click(it("button[data-action$='/replay']", "Replay to this one", within=lane))
    tab.toast("Replayed")
    wait_for(lambda: len(world.api.deliveries(event_id=event, destination_id=destination)) == 2, "there is a second delivery")
    second = next(each for each in world.api.ended(event, count=2, to=destination) if each["id"] != delivery["id"])
    want(second["status"] == "delivered" and second["replay_of"] == delivery["id"], f"it was delivered: {second}")
    tab.shows(it(f"section[id='{second['id']}']", "/delivered/"))
    tab.click(it("#detail button[data-replay]"))
    tab.confirms("Replay this event")
    tab.toast("Replaying")
    wait_for(lambda: len(world.api.deliveries(event_id=event, destination_id=destination)) > 2, "and a third")


@trial(short=True)
def what_waits_is_tried_now_or_cancelled(world):
    destination, path, name = world.failing(retries=(3600,))
    events = [world.api.publish(f"{name}.paid", {"number": number}) for number in range(2)]
    status = lambda event: world.api.deliveries(event_id=event, destination_id=destination)[0]["status"]
    for event in events:
        wait_until_is(lambda: status(event), "retry_scheduled", "it waits for its retry")
    world.receiver.set(path, 200)
    tab = world.page(f"/events/{events[0]}")
    tab.shows(it(".attempt.next", "/59 min|1 h/"))
    tab.click(it(".attempt.next button", "Now"))
    wait_until_is(lambda: status(events[0]), "delivered", "it is tried now")
    tab.shows(it(".lane .status", "delivered"))
    tab.open(f"/events/{events[1]}")
    tab.click(it("button[data-action$='/cancel']"))
    tab.confirms("Cancel this delivery")
    wait_until_is(lambda: status(events[1]), "cancelled", "it is cancelled")
    tab.shows(it(".lane .status", "cancelled"))


@trial()
def rows_are_selected_and_replayed(world):
    name = world.name("chosen")
    route = world.api.route(world.well, f"{name}.*")
    events = [world.api.publish(f"{name}.paid", {"number": number}) for number in range(4)]
    for event in events:
        world.api.ended(event)
    # Three events, by the first, the last and Shift.
    tab = world.page("/events?q=" + urllib.parse.quote(f"type:{name}.*"))
    shown = rows(tab)
    want(set(shown) == set(events), f"all are listed: {shown}")
    tab.click(it(f"[data-pick='{shown[0]}']"))
    tab.click(it(f"[data-pick='{shown[2]}']"), SHIFT)
    tab.shows(it("#selection-count", "3"))
    tab.click(it("button[data-replay-selected]"))
    tab.confirms("3 events")
    tab.toast("Replaying 3 of 3")
    for event in shown[:3]:
        world.api.ended(event, count=2, to=world.well)
    others = world.api.deliveries(event_id=shown[3], destination_id=world.well)
    want(len(others) == 1, f"the one that was not selected is left alone: {others}")
    # Two deliveries become a replay, counted first.
    tab.open("/events?q=" + urllib.parse.quote(f"status:delivered destination:well type:{name}.*"))
    shown = rows(tab)
    for each in shown[:2]:
        tab.click(it(f"[data-pick='{each}']"))
    tab.click(it("button[data-replay-selected]"))
    tab.leaves(lambda: tab.confirms("Replay 2 deliveries"))
    replay = tab.path().rsplit("/", 1)[1]
    want(world.api.get(f"/v1/replays/{replay}")["matched"] == 2, "the API has the replay of two")
    # And all that match.
    tab.open("/events?q=" + urllib.parse.quote(f"status:delivered destination:well type:{name}.*"))
    tab.click(it("button[data-replay-filter]"))
    tab.leaves(lambda: tab.confirms(r"Replay \d+ deliveries"))
    wait_for(lambda: world.api.get("/v1/replays/" + tab.path().rsplit("/", 1)[1])["status"] == "completed", "all are made")
    world.api.delete(f"/v1/routes/{route}")
