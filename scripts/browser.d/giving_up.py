"""Dead letters and replays."""

import urllib.parse

from node import wait_for, wait_until_is
from tab import it, want
from world import trial


def dead(world, name, count):
    """A destination of its own with so many dead letters; gives it, its path and the text its group is known by."""
    destination, path, name = world.failing(name)
    world.receiver.set(path, 422, {}, b'{"error":"not one of ours"}')
    events = [world.api.publish(f"{name}.paid", {"number": number}) for number in range(count)]
    for event in events:
        world.api.ended(event)
    return destination, path, it("[data-key]", f"/{name}/", within="#groups")


def of(world, destination, **more):
    return world.api.deliveries(destination_id=destination, limit=200, **more)


@trial(short=True)
def a_group_of_dead_letters_is_replayed_with_its_count_and_leaves_the_page(world):
    destination, path, group = dead(world, "rejecting", 4)
    tab = world.page("/dead-letters")
    tab.shows(group)
    shown = tab.text(group)
    want("422" in shown and "4" in shown, f"the group says how many and why: {shown}")
    world.receiver.set(path, 200)
    tab.click(it("button[data-replay-filter]", within=group))
    tab.leaves(lambda: tab.confirms("Replay 4 deliveries"))
    want(tab.path().startswith("/replays/"), f"the replay is shown: {tab.path()}")
    tab.shows(it("[data-key]", "/4 delivered/"))
    replay = world.api.get("/v1" + tab.path())
    want((replay["status"], replay["delivered"]) == ("completed", 4), f"the API has it: {replay}")
    tab.open("/dead-letters")
    wait_for(lambda: not [each for each in world.api.all("/v1/dead-letters/groups", limit=200) if each["destination_id"] == destination], "the API has the group no more")
    tab.open("/dead-letters")
    want(not tab.count(group), "what was delivered leaves the page")


@trial(short=True)
def a_group_of_dead_letters_is_dismissed_with_a_note(world):
    destination, path, group = dead(world, "rejecting", 3)
    tab = world.page("/dead-letters")
    tab.shows(group)
    tab.click(it("button[data-dismiss-filter]", within=group))
    tab.shows(it("dialog#confirm[open]", "/Dismiss/"))
    tab.fill(it("dialog#confirm input, dialog#confirm textarea"), "the shop is closed")
    tab.confirms("Dismiss")
    tab.toast("/3 (of 3 )?dismissed/")
    tab.hides(group)
    want(not [each for each in world.api.all("/v1/dead-letters/groups", limit=200) if each["destination_id"] == destination], "the API has no such group")
    entry = next(each for each in world.api.all("/v1/audit", limit=50) if "dismiss" in each["action"])
    want("the shop is closed" in str(entry), f"the note is written down: {entry}")


@trial()
def a_replay_is_made_by_its_form_paused_resumed_and_cancelled(world):
    destination, path, _ = dead(world, "many", 30)
    world.receiver.set(path, 200)
    tab = world.page("/replays")
    tab.click(it("summary", "New replay"))
    form = "form[data-replay-form='']"
    tab.fill(it(f"{form} [name='filter.destination_id']"), destination)
    tab.fill(it(f"{form} [name='filter.since']"), "1h")
    tab.fill(it(f"{form} [name=rate]"), "1")
    tab.click(it(f"{form} button[type=submit]"))
    tab.leaves(lambda: tab.confirms("Replay 30 deliveries"))
    replay = tab.path().split("/")[2]
    state = lambda: world.api.get(f"/v1/replays/{replay}")
    for act, status in (("pause", "paused"), ("resume", "running")):
        tab.click(it(f"button[data-action='/v1/replays/{replay}/{act}']"))
        wait_until_is(lambda: state()["status"], status, f"it is {status}")
    wait_for(lambda: state()["created"], "some are made")
    tab.click(it(f"button[data-action='/v1/replays/{replay}/cancel']"))
    tab.confirms("cannot be undone")
    wait_until_is(lambda: state()["status"], "cancelled", "it is cancelled")
    tab.shows(it(".status", "cancelled"))
    made = state()["created"]
    want(0 < made < 30, f"some were made and some not: {made}")
    wait_for(lambda: len(of(world, destination, replay_id=replay)) == made, "and those alone are there")
    tab.open("/events?q=" + urllib.parse.quote(f"replay:{replay}"))
    tab.shows(it("#rows tbody tr"))


@trial()
def events_are_brought_to_a_destination_that_came_later(world):
    name = world.name("late")
    events = [world.api.publish(f"{name}.paid", {"number": number}) for number in range(3)]
    destination = world.api.destination(name, world.receiver.url(f"/{name}"))
    world.api.route(destination, f"{name}.*")
    tab = world.page("/replays#backfill")
    form = "form[data-replay-form=backfill]"
    tab.fill(it(f"{form} [name=destination_ids]"), destination)
    tab.fill(it(f"{form} [name='events.type']"), f"{name}.*")
    tab.fill(it(f"{form} [name='events.since']"), "1h")
    tab.click(it(f"{form} button[type=submit]"))
    tab.leaves(lambda: tab.confirms("Make 3 deliveries"))
    for event in events:
        want(world.api.ended(event, to=destination)[0]["status"] == "delivered", "what came before the destination is delivered")
    tab.shows(it("[data-key]", "/Backfill/"))


@trial()
def dead_letters_are_selected_and_dismissed(world):
    destination, _, _ = dead(world, "chosen", 3)
    tab = world.page("/events?q=" + urllib.parse.quote(f"status:dead_letter destination:{destination}"))
    ids = [each["id"] for each in of(world, destination)]
    for each in ids[:2]:
        tab.click(it(f"[data-pick='{each}']"))
    tab.click(it("button[data-dismiss-selected]"))
    tab.leaves(lambda: tab.confirms("Dismiss 2 dead letters"))
    resolved = {each["id"] for each in of(world, destination, resolved="true")}
    want(resolved == set(ids[:2]), f"those two are settled: {resolved}")
