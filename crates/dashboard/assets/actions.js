// Buttons and forms that call the API by the session, and show what it says.
import { $, $$, call, inWords, make, problemText, refresh, sayThere, toast, now } from './dom.js';
import { picked, showPicked } from './app.js';
import { destinationName } from './names.js';
import { why } from './why.js';

// --- Asking first ----------------------------------------------------------------------------------------------------
/** Resolves to whether the answer was yes. */
export function confirm(title, text, yes = 'Yes', more = null) {
  const dialog = $('#confirm');
  // One question at a time.
  if (dialog.open) return Promise.resolve(false);
  $('#confirm-title').textContent = title;
  $('#confirm-text').textContent = text || '';
  $('#confirm-more').replaceChildren(...(more ? [more] : []));
  const button = $('#confirm-yes');
  button.textContent = yes;
  const before = document.activeElement;
  dialog.showModal();
  button.focus();
  return new Promise(resolve => {
    const done = answer => {
      button.removeEventListener('click', said);
      dialog.removeEventListener('close', closed);
      if (dialog.open) dialog.close();
      before?.focus?.();
      resolve(answer);
    };
    const said = () => done(true);
    const closed = () => done(false);
    button.addEventListener('click', said);
    dialog.addEventListener('close', closed);
  });
}

async function again() {
  document.dispatchEvent(new Event('changed'));
  await refresh().catch(() => {});
}

// --- Buttons ---------------------------------------------------------------------------------------------------------
async function act(button) {
  const { action, method, body, done, then } = button.dataset;
  if (button.dataset.confirm && !await confirm(button.dataset.confirm, button.dataset.confirmText, button.textContent.replace(/\s\S$/, '').trim())) return;
  button.setAttribute('aria-busy', 'true');
  const answer = await call(action, { method: method || 'POST', body });
  button.removeAttribute('aria-busy');
  if (!answer.ok) return toast(problemText(answer.body), true);
  if (then) { sayThere(done || 'Done'); return location.assign(then); }
  toast(done || 'Done');
  await again();
}

async function bulk(button) {
  const ids = picked();
  if (!await confirm(`${button.textContent.trim()} ${ids.length}?`, button.dataset.bulkText, button.textContent.trim())) return;
  let failed = 0;
  for (const id of ids) {
    const answer = await call(button.dataset.bulk.replace('{}', id));
    if (!answer.ok) { failed += 1; toast(problemText(answer.body), true); }
  }
  sayThere(`${button.dataset.done}: ${ids.length - failed} of ${ids.length}`);
  $$('[data-pick]:checked').forEach(box => { box.checked = false; });
  showPicked();
  location.reload();
}

// --- Replays: the count and the cost first ---------------------------------------------------------------------------
const span = seconds => seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
const number = value => Number(value).toLocaleString('en');
const RATE = 100;
/** How many there are, for which destinations, and how long it takes at which rate; then it begins. */
async function replay(input, form = null) {
  const estimate = await call('/v1/replays', { body: { ...input, dry_run: true } });
  if (!estimate.ok) return form ? showProblems(form, estimate.body) : toast(problemText(estimate.body), true);
  const { matched, matched_exact, by_destination = [] } = estimate.body;
  if (!matched) return toast(input.events ? 'There is nothing to bring anywhere: every event has been where the routes lead.' : 'There is nothing to replay.');
  const names = await Promise.all(by_destination.slice(0, 10).map(each => destinationName(each.destination_id)));
  const rows = names.map((name, at) => make('tr', {}, make('td', { class: 'wide' }, name), make('td', { class: 'num' }, number(by_destination[at].count))));
  if (by_destination.length > rows.length) rows.push(make('tr', {}, make('td', { class: 'wide quiet' }, `and ${by_destination.length - rows.length} more destinations`), make('td', {})));
  const rate = make('input', { type: 'number', min: 1, max: 10000, value: input.rate || RATE, 'aria-label': 'A second, at most' });
  const cost = make('strong', {});
  const told = () => { cost.textContent = `about ${span(Math.ceil(matched / Math.max(1, Number(rate.value) || RATE)))}`; };
  rate.addEventListener('input', told);
  told();
  const count = `${number(matched)}${matched_exact ? '' : '+'} ${matched === 1 ? 'delivery' : 'deliveries'}`;
  const more = make('div', { class: 'cost' }, make('label', {}, 'At ', rate, ' a second: ', cost), make('table', { class: 'list' }, make('tbody', {}, ...rows)));
  const yes = await confirm(input.events ? `Make ${count}?` : `Replay ${count}?`, 'Each becomes a new delivery, as fast as its destination takes it. What was sent cannot be taken back.', input.events ? 'Make them' : 'Replay', more);
  if (!yes) return;
  const made = await call('/v1/replays', { body: { ...input, rate: Number(rate.value) || RATE }, headers: { 'idempotency-key': crypto.randomUUID?.() || String(Math.random()).slice(2) } });
  if (!made.ok) return toast(problemText(made.body), true);
  location.assign(`/replays/${made.body.id}`);
}
const nameOf = id => $(`a[href="/destinations/${CSS.escape(id)}"]`)?.textContent || id;

// --- Dead letters that nobody will have again ------------------------------------------------------------------------
/** By a filter, whose matches are counted first, or by ids. A request settles so many; the next goes on where it stopped. */
async function dismiss({ filter, ids }) {
  let count = ids?.length;
  if (filter) {
    const estimate = await call('/v1/replays', { body: { filter, dry_run: true } });
    if (!estimate.ok) return toast(problemText(estimate.body), true);
    count = estimate.body.matched;
    if (!count) return toast('There is nothing to dismiss.');
  }
  const note = make('input', { type: 'text', maxlength: 1000, 'aria-label': 'Why', placeholder: 'Why? The history keeps it.' });
  const yes = await confirm(`Dismiss ${number(count)} dead ${count === 1 ? 'letter' : 'letters'}?`, 'Nothing is sent and nothing is forgotten: they leave this page, and can still be replayed one by one.', 'Dismiss', note);
  if (!yes) return;
  const said = note.value.trim() ? { note: note.value.trim() } : {};
  let dismissed = 0, until = filter?.until;
  for (;;) {
    const answer = await call('/v1/dead-letters/dismiss', { body: ids ? { delivery_ids: ids, ...said } : { filter: { ...filter, ...(until && { until }) }, ...said } });
    if (!answer.ok) { toast(problemText(answer.body), true); break; }
    dismissed += answer.body.dismissed;
    toast(`${number(dismissed)} of ${number(count)} dismissed`);
    // The same moment once more would be the same request once more.
    if (!answer.body.more || !answer.body.next_until || answer.body.next_until === until) break;
    until = answer.body.next_until;
  }
  if (ids) location.reload();
  await again();
}

// --- The newest of a group -------------------------------------------------------------------------------------------
document.addEventListener('toggle', async event => {
  const group = event.target;
  if (!group.matches?.('[data-samples][open]')) return;
  const answer = await call(group.dataset.samples, { method: 'GET' });
  if (!answer.ok) return;
  const rows = answer.body.data.map(each => make('li', {},
    make('a', { class: 'plain', href: `/deliveries/${each.id}` }, each.event_type),
    make('span', { class: 'quiet' }, `${each.attempt_count} ${each.attempt_count === 1 ? 'attempt' : 'attempts'}${each.last_http_status ? ` · HTTP ${each.last_http_status}` : ''}`),
    make('time', { datetime: each.created_at, 'data-relative': true, class: 'quiet' }, '')));
  $('[data-samples-shown]', group)?.replaceChildren(make('ul', { class: 'last-events' }, ...rows));
}, true);

// --- What a source did not believe -----------------------------------------------------------------------------------
document.addEventListener('toggle', async event => {
  const refused = event.target;
  if (!refused.matches?.('[data-refused][open]')) return;
  const answer = await call(refused.dataset.refused, { method: 'GET' });
  const place = $('[data-refused-shown]', refused);
  if (!answer.ok) return place.replaceChildren(make('p', { class: 'problem' }, problemText(answer.body)));
  if (!answer.body.data.length) return place.replaceChildren(make('p', { class: 'quiet' }, 'None is kept.'));
  const rows = answer.body.data.map(each => {
    const headers = Object.entries(each.headers).map(([name, value]) => `${name}: ${value}`).join('\n');
    const body = each.body ?? `${each.body_base64 || ''} (base64)`;
    return make('li', {},
      make('p', {}, make('span', { class: 'status bad' }, `✕ ${each.reason.replaceAll('_', ' ')}`), ' ', make('time', { datetime: each.at, 'data-relative': true, class: 'quiet' }, ''), make('span', { class: 'quiet' }, ` · from ${each.client_address} · ${number(each.size_bytes)} bytes`)),
      make('p', {}, ...inWords(each.detail)),
      make('details', {}, make('summary', {}, 'The request'), make('pre', { class: 'box' }, `${headers}\n\n${body}${each.truncated ? '\n…' : ''}`)));
  });
  place.replaceChildren(make('ul', { class: 'refused' }, ...rows));
}, true);

// --- What the doctor finds -------------------------------------------------------------------------------------------
async function examine() {
  const place = $('[data-doctor]');
  if (!place) return;
  const answer = await call('/v1/doctor', { method: 'GET' });
  if (!answer.ok) return place.replaceChildren(make('p', { class: 'quiet' }, problemText(answer.body)));
  const tones = { ok: 'good', warning: 'warn' };
  const rows = answer.body.findings.map(each => make('tr', {},
    make('td', {}, make('span', { class: `status ${tones[each.level] || 'bad'}` }, `${each.level === 'ok' ? '✓' : '!'} ${each.level}`)),
    make('td', {}, each.check.replaceAll('_', ' ')),
    make('td', { class: 'wide' }, ...inWords(each.detail), each.fix ? make('div', { class: 'quiet' }, ...inWords(each.fix)) : null)));
  place.replaceChildren(make('table', { class: 'list' }, make('tbody', {}, ...rows)));
}
examine();

// --- The keys that encrypt -------------------------------------------------------------------------------------------
async function masterKeys() {
  const place = $('[data-master-keys]');
  if (!place) return;
  const answer = await call('/v1/master-keys', { method: 'GET' });
  if (!answer.ok) return place.replaceChildren(make('p', { class: 'quiet' }, problemText(answer.body)));
  const keys = answer.body.keys;
  const rows = keys.map(key => make('tr', {},
    make('td', {}, make('strong', {}, key.name)),
    make('td', {}, key.active ? 'seals and opens' : key.configured ? 'opens' : 'not given to this node'),
    make('td', { class: 'num' }, `${number(key.sealed_count)} sealed`),
    make('td', { class: 'wide' }, key.needed ? 'No node starts without it.' : 'It may be left out of master_keys.')));
  const active = keys.find(key => key.active)?.name;
  const parts = [make('table', { class: 'list' }, make('tbody', {}, ...rows))];
  if (keys.some(key => !key.active && key.needed)) parts.push(make('p', { class: 'more' }, make('button', { class: 'button', type: 'button', 'data-seal-anew': active }, `Seal everything by ${active}`)));
  if (answer.body.unreadable_count) parts.push(make('p', { class: 'problem' }, `Of ${number(answer.body.unreadable_count)} accounts it does not read by which key theirs is sealed.`));
  place.replaceChildren(...parts);
}
masterKeys();

/** Step by step, as the API does it; what was done is done, wherever it ends. */
async function sealAnew(button) {
  const name = button.dataset.sealAnew;
  if (!await confirm(`Seal everything by ${name}?`, 'Deliveries go on meanwhile. Every node must have been started with this key as the first.', 'Seal')) return;
  button.setAttribute('aria-busy', 'true');
  let after, sealed = 0, inRound = 1;
  for (;;) {
    const answer = await call('/v1/master-keys/rotate', { body: after ? { after } : {} });
    if (!answer.ok) { toast(problemText(answer.body), true); break; }
    sealed += answer.body.resealed_count;
    inRound += answer.body.resealed_count;
    if (answer.body.done) { toast(`Everything is sealed by ${name} now: ${number(sealed)} keys`); break; }
    after = answer.body.next;
    // Once around, nothing done and not at the end: something does not read.
    if (!after && !inRound) { toast(`${number(sealed)} keys are sealed by ${name}, and some are not: the doctor says more.`, true); break; }
    if (!after) inRound = 0;
  }
  masterKeys();
}

/** A filter without what it does not say. */
function lean(filter) {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value != null && (!Array.isArray(value) || value.length)));
}
const ENDED = ['delivered', 'dead_letter', 'cancelled'];

// --- Secrets ---------------------------------------------------------------------------------------------------------
async function reveal(button) {
  const answer = await call(button.dataset.reveal, { method: 'GET' });
  if (!answer.ok) return toast(problemText(answer.body), true);
  const secret = answer.body[button.dataset.member];
  const place = $('[data-revealed]', button.closest('article, [role=tabpanel]') || document);
  place.replaceChildren(command(secret));
  if ('curl' in button.dataset) place.append(command(`curl ${secret} -H 'content-type: application/json' -d '{"type": "order.paid", "id": 1}'`));
  if (answer.body.previous_until) place.append(make('p', { class: 'quiet' }, `The one before signs as well until ${answer.body.previous_until}.`));
  place.hidden = false;
}
function command(text) {
  return make('div', { class: 'command' }, make('pre', {}, make('code', {}, text)), make('button', { class: 'button small', type: 'button', 'data-copy': text }, 'Copy'));
}

// --- Forms -----------------------------------------------------------------------------------------------------------
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };
/** Lines of names and values as an object. Of those there were (`names`), one without a value stays, and one that is gone goes. */
function pairs(field, text) {
  const known = JSON.parse(field.dataset.names || '[]');
  const value = Object.fromEntries(known.map(name => [name, null]));
  for (const line of text.split('\n').map(each => each.trim()).filter(Boolean)) {
    const at = line.indexOf(':');
    if (at < 1) throw { field, text: `Write a name, a colon and a value: ${line}` };
    const [name, said] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    const same = known.find(each => each.toLowerCase() === name.toLowerCase());
    if (!said && same) delete value[same]; else value[same ?? name] = said;
  }
  return value;
}

function numberOf(field, text) {
  if (Number.isFinite(Number(text))) return Number(text);
  throw { field, text: `“${text}” is no number.` };
}
/** A day is its beginning; a time of the day is as it was typed. */
function momentOf(field, text, example) {
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return `${text}T00:00:00Z`;
  if (/^\d{4}-\d\d-\d\dT/.test(text)) return text;
  throw { field, text: `Write ${example}.` };
}

/** The members of a form as the API takes them. Throws the field that does not read. */
function members(form) {
  const body = {};
  const sets = {};
  const changes = form.dataset.method === 'PATCH';
  const fields = [...form.elements].filter(field => field.name);
  const said = new Set(fields.filter(field => !field.matches(':disabled')).map(field => field.name));
  for (const field of fields) {
    const { type, empty, unchecked } = field.dataset;
    const isOff = field.matches(':disabled');
    // What belongs to another choice is no longer so.
    if (isOff && !(changes && empty !== 'leave' && !said.has(field.name) && field.closest('[data-for]'))) continue;
    let value;
    if (isOff) value = null;
    else if (field.type === 'checkbox') {
      if (type === 'set') { (sets[field.name] ||= []); if (field.checked) sets[field.name].push(field.value); continue; }
      if (!field.checked && unchecked === undefined) continue;
      value = type === 'off' ? false : type === 'word' ? field.value : field.checked;
    } else {
      // A password is what was typed, spaces and all.
      const text = field.type === 'password' ? field.value : field.value.trim();
      if (!text && field.required) throw { field, text: 'Fill this in.' };
      if (type === 'pairs') value = pairs(field, text);
      else if (!text) {
        if (empty === 'null' || changes && empty !== 'leave') value = null; else continue;
      } else if (type === 'number') value = Number(text);
      else if (type === 'numbers') value = text.split(/[\s,]+/).filter(Boolean).map(each => numberOf(field, each));
      else if (type === 'list') value = text.split(/[\s,]+/).filter(Boolean);
      else if (type === 'lines') value = text.split('\n').map(each => each.trim()).filter(Boolean);
      else if (type === 'until') {
        const span = /^(\d+)([smhdw])$/.exec(text);
        value = span ? new Date(now() + span[1] * SECONDS[span[2]] * 1000).toISOString() : momentOf(field, text, '30d, or a day such as 2027-01-01');
      } else if (type === 'moment') {
        const ago = /^(\d+)([smhdw])$/.exec(text);
        value = ago ? new Date(now() - ago[1] * SECONDS[ago[2]] * 1000).toISOString() : text === 'now' ? new Date(now()).toISOString() : momentOf(field, text, '30m, 1h, 2d, or a day such as 2026-04-03');
      } else if (type === 'json') {
        try { value = JSON.parse(text); } catch (error) { throw { field, text: `This is not JSON: ${error.message}` }; }
      } else value = text;
    }
    const path = field.name.split('.');
    const last = path.pop();
    let into = body;
    for (const part of path) into = (into[part] ??= {});
    into[last] = value;
  }
  // A group whose members are all empty is left to others.
  if (typeof body.rate_limit === 'object' && body.rate_limit) {
    if (!body.rate_limit.requests) body.rate_limit = null; else body.rate_limit.per_seconds ||= 1;
  }
  if (body.rate_limit === null && form.dataset.method === 'POST') delete body.rate_limit;
  return { ...body, ...sets };
}

export function showProblems(form, problem) {
  $$('.field-problem', form).forEach(each => each.remove());
  $$('[aria-invalid]', form).forEach(each => each.removeAttribute('aria-invalid'));
  const place = $('[data-form-problems]', form);
  if (!problem) return place?.replaceChildren();
  const rest = [];
  for (const error of problem.errors || []) {
    const name = error.pointer.slice(1).replaceAll('/', '.');
    const field = [...form.elements].find(each => each.name && !each.matches(':disabled') && (each.name === name || name.startsWith(`${each.name}.`)));
    if (!field) { rest.push(`${error.pointer}: ${error.detail}`); continue; }
    field.setAttribute('aria-invalid', 'true');
    (field.closest('label') || field.parentElement).append(make('span', { class: 'field-problem' }, error.detail));
  }
  if (!(problem.errors || []).length || rest.length) {
    const text = rest.length ? rest.join('\n') : problemText(problem);
    if (place) place.replaceChildren(make('p', { class: 'problem' }, text)); else toast(text, true);
  }
  $('[aria-invalid]', form)?.focus();
}

/** What is typed into a form, as the API takes it; nothing if a field does not read, which is said there. */
export function typed(form) {
  try {
    const body = members(form);
    showProblems(form, null);
    return body;
  } catch (wrong) {
    showProblems(form, { errors: [{ pointer: `/${wrong.field.name.replaceAll('.', '/')}`, detail: wrong.text }] });
  }
}

async function send(form) {
  const body = typed(form);
  if (!body) return;
  if (form.dataset.replayForm === 'backfill') return replay({ events: body.events || {}, match: 'now', ...(body.destination_ids && { destination_ids: body.destination_ids }), rate: body.rate }, form);
  if ('replayForm' in form.dataset) return replay({ filter: body.filter || {}, rate: body.rate }, form);
  const button = $('button[type=submit]', form);
  button?.setAttribute('aria-busy', 'true');
  const headers = form.dataset.version ? { 'if-match': `"${form.dataset.version}"` } : {};
  const answer = await call(form.dataset.form, { method: form.dataset.method, body, headers });
  button?.removeAttribute('aria-busy');
  const place = $('[data-form-result]', form);
  if (!answer.ok && form.dataset.result === 'test') return place.replaceChildren(make('p', { class: 'problem' }, problemText(answer.body)));
  if (answer.status === 412) return showProblems(form, { detail: 'Somebody has changed it since this page was loaded, and what you typed is not saved. Load the page anew to see it as it is now.' });
  if (!answer.ok) return showProblems(form, answer.body);
  switch (form.dataset.result) {
    case 'test': return place.replaceChildren(tested(answer.body));
    case 'key':
      form.reset();
      place.replaceChildren(make('p', {}, 'This is the only time the key is shown:'), command(answer.body.key));
      toast('Made');
      return;
    case 'source':
      if (answer.body.verification.type === 'none') place.replaceChildren(make('p', {}, 'Send events to it with:'), command(`curl ${answer.body.ingest_url} -H 'content-type: application/json' -d '{"type": "order.paid", "id": 1}'`));
      else place.replaceChildren(make('p', {}, answer.body.enabled ? 'Its ingest URL, for the provider:' : 'Its ingest URL, for the provider. Enter the secret that you get for it under “Edit”, then enable the source:'), command(answer.body.ingest_url));
      return refresh().catch(() => {});
    case 'preview': return place.replaceChildren(...previewed(answer.body));
  }
  if (form.dataset.then === 'destination') {
    if ($('[data-route-too]', form)?.checked) {
      const route = await call('/v1/routes', { body: { destination_id: answer.body.id } });
      if (!route.ok) toast(problemText(route.body), true);
    }
    return location.assign(`/destinations/${answer.body.id}`);
  }
  sayThere(form.dataset.done || 'Done');
  location.reload();
}

/** The answer to a test, in short. */
function tested(attempt) {
  const good = attempt.outcome === 'success';
  const head = make('p', { class: good ? 'good' : 'bad' }, make('strong', {}, attempt.http_status ? `HTTP ${attempt.http_status}` : attempt.outcome.replaceAll('_', ' ')), ` in ${attempt.duration_ms} ms`, attempt.error?.message ? ` · ${attempt.error.message}` : '');
  const parts = [head];
  if (attempt.response) {
    const headers = Object.entries(attempt.response.headers).map(([name, value]) => `${name}: ${value}`).join('\n');
    parts.push(make('pre', { class: 'box' }, `${headers}\n\n${attempt.response.body ?? ''}`));
  }
  return make('div', {}, ...parts);
}

/** Which routes match, and the first thing that does not hold of the others. */
function previewed({ data: routes, draft }) {
  const said = draft ? [make('p', {}, make('span', { class: draft.matches ? 'status good' : 'status quiet' }, draft.matches ? '✓ what you typed takes it' : '✕ what you typed does not take it'), ' ', ...why(draft.why))] : [];
  if (!routes.length) return [...said, make('p', { class: 'quiet' }, 'There is no route.')];
  const matching = routes.filter(route => route.matches).length;
  return [...said, make('p', {}, `${matching} of ${routes.length} routes match.`), make('table', { class: 'list' }, make('tbody', {}, ...routes.slice(0, 50).map(route => make('tr', {},
    make('td', {}, make('span', { class: route.matches ? 'status good' : 'status quiet' }, route.matches ? (route.delivers ? '✓ delivers' : '✓ matches, an older route delivers') : '✕ no match')),
    make('td', {}, make('a', { href: `/destinations/${route.destination_id}` }, nameOf(route.destination_id))),
    make('td', { class: 'wide' }, ...why(route.why))))))];
}
async function preview(button) {
  const answer = await call('/v1/routes/preview', { body: { event_id: button.dataset.preview } });
  if (!answer.ok) return toast(problemText(answer.body), true);
  const place = button.closest('p').nextElementSibling?.matches('[data-preview-result]') ? button.closest('p').nextElementSibling : $('[data-preview-result]');
  place.replaceChildren(...previewed(answer.body));
}

// --- Trying the API --------------------------------------------------------------------------------------------------
async function attempt(form) {
  let path = form.dataset.try;
  const query = new URLSearchParams();
  let body;
  for (const field of form.elements) {
    const value = field.value?.trim?.();
    if (!value || !field.dataset.in) continue;
    if (field.dataset.in === 'path') path = path.replace(`{${field.name}}`, encodeURIComponent(value));
    else if (field.dataset.in === 'query') query.append(field.name, value);
    else if (field.dataset.in === 'body') body = value;
  }
  const answer = await call(path + (query.size ? `?${query}` : ''), { method: form.dataset.method, body });
  const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body, null, 2);
  $('[data-form-result]', form).replaceChildren(make('p', { class: answer.ok ? 'good' : 'bad' }, `HTTP ${answer.status}`), make('pre', { class: 'box' }, text ?? ''));
}

// --- Sessions --------------------------------------------------------------------------------------------------------
const BROWSERS = [['Firefox', /Firefox\/(\d+)/], ['Edge', /Edg\w*\/(\d+)/], ['Opera', /OPR\/(\d+)/], ['Chrome', /Chrome\/(\d+)/], ['Safari', /Version\/(\d+).* Safari\//]];
const SYSTEMS = [['Windows', /Windows/], ['Android', /Android/], ['iOS', /iPhone|iPad/], ['macOS', /Mac OS X/], ['Linux', /Linux/]];
/** What a browser calls itself, in short: `Firefox 140 on Linux`; one that is not known as it says. */
function browserOf(text) {
  const [name, version] = BROWSERS.map(([name, is]) => [name, is.exec(text)?.[1]]).find(([, version]) => version) || [];
  const system = SYSTEMS.find(([, is]) => is.test(text))?.[0];
  return name ? `${name} ${version}${system ? ` on ${system}` : ''}` : text;
}
async function sessions() {
  const place = $('[data-sessions]');
  if (!place) return;
  const answer = await call('/ui/sessions', { method: 'GET' });
  if (!answer.ok) return place.replaceChildren(make('p', { class: 'quiet' }, problemText(answer.body)));
  const rows = (answer.body.data || []).map(session => make('tr', {},
    make('td', {}, session.current ? make('strong', {}, 'this one') : session.client || '–'),
    make('td', { class: 'wide', title: session.user_agent || null }, browserOf(session.user_agent || '')),
    make('td', { class: 'num' }, make('time', { datetime: session.seen_at, 'data-relative': true }, '')),
    make('td', { class: 'act' }, session.current ? '' : make('button', { class: 'button small danger', type: 'button', 'data-action': `/ui/sessions/${session.id}`, 'data-method': 'DELETE', 'data-done': 'Ended', 'data-session': true }, 'End'))));
  place.replaceChildren(make('table', { class: 'list' }, make('tbody', {}, ...rows)));
}
sessions();

// Pressed twice is pressed once, until what it does is done.
const underWay = new WeakSet();
async function once(element, task) {
  if (underWay.has(element)) return;
  underWay.add(element);
  try { await task(element); } finally { underWay.delete(element); }
}

async function pressed(button) {
  const { dataset } = button;
  if ('replaySelected' in dataset) {
    const ids = picked();
    if (ids[0]?.startsWith('dlv_')) return replay({ delivery_ids: ids });
    if (!await confirm(`Replay ${ids.length} ${ids.length === 1 ? 'event' : 'events'}?`, 'Every destination that had them gets them again.', 'Replay')) return;
    let failed = 0;
    for (const id of ids) { const answer = await call(`/v1/events/${id}/replay`, { body: {} }); if (!answer.ok) { failed += 1; toast(problemText(answer.body), true); } }
    return toast(`Replaying ${ids.length - failed} of ${ids.length}`, failed > 0);
  }
  if ('replayFilter' in dataset) {
    const filter = lean(JSON.parse(dataset.replayFilter));
    if (filter.status?.some(status => !ENDED.includes(status))) return toast('Only what has ended can be replayed: ask for delivered, dead_letter or cancelled.', true);
    return replay({ filter });
  }
  if ('dismissFilter' in dataset) return dismiss({ filter: lean(JSON.parse(dataset.dismissFilter)) });
  if ('dismissSelected' in dataset) return dismiss({ ids: picked() });
  if ('sealAnew' in dataset) return sealAnew(button);
  if ('lookAgain' in dataset) { $('[data-doctor]').replaceChildren(make('p', { class: 'quiet' }, 'Looking…')); return examine(); }
  if ('action' in dataset) { await act(button); if ('session' in dataset) sessions(); return; }
  if ('bulk' in dataset) return bulk(button);
  if ('reveal' in dataset) return reveal(button);
  if ('preview' in dataset) return preview(button);
  if ('account' in dataset) {
    const answer = await call('/ui/account', { body: { account: dataset.account || null } });
    return answer.ok ? location.assign('/') : toast(problemText(answer.body), true);
  }
  if ('signOut' in dataset) { await call('/ui/sign-out'); return location.assign('/login'); }
}
document.addEventListener('click', event => {
  const button = event.target.closest?.('button');
  if (button) once(button, pressed);
});
document.addEventListener('submit', event => {
  const form = event.target;
  if (form.matches('[data-form]')) { event.preventDefault(); once(form, send); }
  if (form.matches('[data-try]')) { event.preventDefault(); once(form, attempt); }
});

// What the days that are typed will need.
document.addEventListener('input', event => {
  const field = event.target;
  if (!field.dataset?.projected) return;
  const bytes = Number(field.dataset.projected) * Number(field.value || 0);
  const shown = bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
  $('[data-projection]').textContent = shown;
});
