"""What schemathesis is told besides: which key goes where, that nothing but the loopback address is called, and that what
fits the document is refused only for what one of its sentences says."""

import json
import os
import random
import re

import schemathesis
from schemathesis.core.parameters import ParameterLocation

trial = json.loads(os.environ["TRIAL"])
with open(trial["document"]) as text:
    document = text.read()
with open(os.path.join(os.path.dirname(__file__), "refusals.json")) as text:
    refusals = json.load(text)
for refusal in refusals:
    assert json.dumps(refusal["sentence"], ensure_ascii=False)[1:-1] in document, f"nowhere in the document: {refusal}"

url_schema = json.loads(document)["components"]["schemas"]["DestinationUrl"]
chance = random.Random(1)
# Deleted or revoked, nothing could be asked of it any more; paused or changed, tests of it would wait.
TAKEN_AWAY = {"delete", "revoke"}
CHANGED = {"update", "pause", "resume", "enable", "disable", "rotate", "cancel"}


@schemathesis.hook
def before_call(ctx, case, kwargs):
    operation = case.operation.definition.raw.get("operationId", "")
    verb = operation.split("_")[0]
    seeds = trial["spares" if verb in CHANGED else "seeds"]
    if case.path.startswith("/v1/"):
        for_operators = case.path.startswith("/v1/accounts")
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {trial['operator_key' if for_operators else 'key']}"}
    meta = case.meta
    positive_path = meta is None or not meta.is_negative_at(ParameterLocation.PATH)
    for name, value in (case.path_parameters or {}).items() if positive_path else ():
        kind = "token" if name == "token" else str(value).split("_")[0]
        if verb in TAKEN_AWAY:
            # Ids are also taken from what was answered: the key that asks would be revoked one day.
            case.path_parameters[name] = trial["spares"]["key"] if kind == "key" else f"{kind}_{'0' * 26}"
        # A guess at a token would be counted as one, and this address be turned away.
        elif kind in seeds and (verb in CHANGED or name == "token" or chance.random() < 0.7):
            case.path_parameters[name] = seeds[kind]
    stay_on_loopback(case.body)
    with open(trial["tally"], "a") as tally:
        tally.write(operation + "\n")


def stay_on_loopback(body):
    if isinstance(body, dict) and isinstance(body.get("url"), str):
        url = body["url"]
        if len(url) <= url_schema["maxLength"] and re.search(url_schema["pattern"], url):
            body["url"] = trial["receiver"]
        elif re.match("(?i)https?:", url):
            body["url"] = "https:// " + url[8:]


@schemathesis.check
def refused_for_what_is_written(ctx, response, case):
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or not 400 <= response.status_code < 500:
        return
    problem = response.json()
    # What is not there, has ended or is taken is no matter of the schema; nor is the pace.
    if response.status_code in (404, 409, 410, 429):
        return
    operation = case.operation.definition.raw["operationId"]
    # Each of the places, or the code alone.
    for error in problem["errors"] or [{"pointer": "", "code": problem["code"]}]:
        place = f"{operation} {error['pointer']} {error['code']}: {error.get('detail', problem['detail'])}"
        if not any(re.fullmatch(refusal["place"], place, re.S) for refusal in refusals):
            raise AssertionError(place)
