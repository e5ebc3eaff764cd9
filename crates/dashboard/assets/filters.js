// Filters tried on the last events that came: those of a destination's routes, and one that is only typed. Each event is asked
// of the API's preview, and nothing is sent or kept.
import { $, $$, call, make, problemText } from './dom.js';
import { showProblems, typed } from './actions.js';
import { why } from './why.js';

/** Events that are tried, and looked through for them. */
const EVENTS = 10;
const LOOKED_AT = 50;

const because = reason => reason ? [': ', ...why(reason)] : [];
const status = (good, said) => make('span', { class: good ? 'status good' : 'status quiet' }, said);
const cell = (kind, ...children) => make('td', { class: kind }, ...children);
const when = event => make('time', { datetime: event.received_at, 'data-relative': true }, '');
const row = (event, ...said) => make('tr', {},
  cell(null, make('a', { class: 'plain', href: `/events/${event.id}` }, event.type)), cell('num', when(event)), cell('wide', ...said));

/** Shows the rows of what was tried, or what kept it from being tried. */
function show(place, what, said, rows) {
  const head = make('tr', {}, make('th', { scope: 'col' }, 'Event'), make('th', { scope: 'col', class: 'num' }, 'When'), make('th', { scope: 'col' }, what));
  place.replaceChildren(make('p', {}, said), make('table', { class: 'list' }, make('thead', {}, head), make('tbody', {}, ...rows)));
}
const complain = (place, text, kind = 'problem') => place.replaceChildren(make('p', { class: kind }, text));

// --- Those of a destination's routes ---------------------------------------------------------------------------------
function verdict(route) {
  const good = route.matches;
  const said = good ? route.delivers ? '✓ leads here' : '✓ matches, an older route delivers' : '✕ does not match';
  return make('li', {}, status(good, said), ...because(route.why));
}

async function tried(event, destination) {
  const answer = await call('/v1/routes/preview', { body: { event_id: event.id } });
  const routes = answer.ok ? answer.body.data.filter(route => route.destination_id === destination) : [];
  const said = answer.ok ? routes.map(verdict) : [make('li', { class: 'quiet' }, problemText(answer.body))];
  const list = said.length ? make('ul', { class: 'verdicts' }, ...said) : make('span', { class: 'quiet' }, 'No route leads here.');
  return { row: row(event, list), leads: routes.some(route => route.delivers) };
}

async function tryFilters(button) {
  const place = $('[data-tried-filters]');
  const answer = await call(`/v1/events?limit=${EVENTS}`, { method: 'GET' });
  if (!answer.ok) return complain(place, problemText(answer.body));
  const events = answer.body.data;
  if (!events.length) return complain(place, 'No event has come yet.', 'quiet');
  const found = await Promise.all(events.map(event => tried(event, button.dataset.tryFilters)));
  show(place, 'Routes that lead here', `${found.filter(each => each.leads).length} of ${events.length} of the last events would be delivered here.`, found.map(each => each.row));
}

// --- One that is only typed ------------------------------------------------------------------------------------------
/** What the form of a route says, on the last events of its source. */
async function tryDraft(button) {
  const form = button.closest('form');
  const body = typed(form);
  if (!body) return;
  const place = $('[data-tried-draft]', form);
  const source = 'source' in button.dataset ? button.dataset.source : body.source_id || '';
  const draft = { event_types: body.event_types, filter: body.filter };
  const read = await call(`/v1/events?limit=${source ? EVENTS : LOOKED_AT}${source ? `&source_id=${source}` : ''}`, { method: 'GET' });
  if (!read.ok) return complain(place, problemText(read.body));
  const events = read.body.data.filter(event => (event.source_id || '') === source).slice(0, EVENTS);
  // Without an event there is still something to say of what is typed.
  const first = await call('/v1/routes/preview', { body: { ...(events.length ? { event_id: events[0].id } : { type: 'unknown' }), draft } });
  if (!first.ok) {
    place.replaceChildren();
    return showProblems(form, { ...first.body, errors: first.body?.errors?.map(each => ({ ...each, pointer: each.pointer.replace(/^\/draft/, '') })) });
  }
  if (!events.length) return complain(place, 'It reads well. No event has come there lately to try it on: make one up under “Try an event”.', 'quiet');
  const others = await Promise.all(events.slice(1).map(event => call('/v1/routes/preview', { body: { event_id: event.id, draft } })));
  const said = [first, ...others].map(answer => answer.ok ? answer.body.draft : null);
  show(place, 'What it says', `${said.filter(each => each?.matches).length} of ${events.length} of the last events would be taken.`, events.map((event, at) =>
    said[at] ? row(event, status(said[at].matches, said[at].matches ? '✓ taken' : '✕ not taken'), ...because(said[at].why)) : row(event, problemText([first, ...others][at].body))));
}

document.addEventListener('click', async event => {
  const button = event.target.closest?.('[data-try-filters], [data-try-draft]');
  if (!button || button.getAttribute('aria-busy') === 'true') return;
  button.setAttribute('aria-busy', 'true');
  await ('tryDraft' in button.dataset ? tryDraft(button) : tryFilters(button));
  button.removeAttribute('aria-busy');
});
// What was said of a filter is not said of another one.
document.addEventListener('input', event => {
  if (event.target.matches?.('[name=filter], [name=event_types]')) $$('[data-tried-draft]', event.target.form).forEach(each => each.replaceChildren());
});
