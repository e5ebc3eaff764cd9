// The routes of a destination tried on the last events that came: each is asked of the API's preview, and nothing is sent.
import { $, call, make, problemText } from './dom.js';
import { why } from './why.js';

/** Events that are tried. */
const EVENTS = 10;

function verdict(route) {
  const good = route.matches;
  const said = good ? route.delivers ? '✓ leads here' : '✓ matches, an older route delivers' : '✕ does not match';
  return make('li', {}, make('span', { class: good ? 'status good' : 'status quiet' }, said), ' ', ...why(route.why));
}

async function tried(event, destination) {
  const answer = await call('/v1/routes/preview', { body: { event_id: event.id } });
  const routes = answer.ok ? answer.body.data.filter(route => route.destination_id === destination) : [];
  const said = answer.ok ? routes.map(verdict) : [make('li', { class: 'quiet' }, problemText(answer.body))];
  const row = make('tr', {},
    make('td', {}, make('a', { class: 'plain', href: `/events/${event.id}` }, event.type)),
    make('td', { class: 'num' }, make('time', { datetime: event.received_at, 'data-relative': true }, '')),
    make('td', { class: 'wide' }, said.length ? make('ul', { class: 'verdicts' }, ...said) : make('span', { class: 'quiet' }, 'No route leads here.')));
  return { row, leads: routes.some(route => route.delivers) };
}

async function tryFilters(button) {
  const place = $('[data-tried-filters]');
  button.setAttribute('aria-busy', 'true');
  const answer = await call(`/v1/events?limit=${EVENTS}`, { method: 'GET' });
  const events = answer.ok ? answer.body.data : [];
  const found = await Promise.all(events.map(event => tried(event, button.dataset.tryFilters)));
  button.removeAttribute('aria-busy');
  if (!answer.ok) return place.replaceChildren(make('p', { class: 'problem' }, problemText(answer.body)));
  if (!events.length) return place.replaceChildren(make('p', { class: 'quiet' }, 'No event has come yet.'));
  const head = make('tr', {}, make('th', { scope: 'col' }, 'Event'), make('th', { scope: 'col', class: 'num' }, 'When'), make('th', { scope: 'col' }, 'Routes that lead here'));
  place.replaceChildren(
    make('p', {}, make('strong', {}, `${found.filter(each => each.leads).length} of ${events.length}`), ' of the last events would be delivered here.'),
    make('table', { class: 'list' }, make('thead', {}, head), make('tbody', {}, ...found.map(each => each.row))));
}

document.addEventListener('click', event => {
  const button = event.target.closest?.('[data-try-filters]');
  if (button && button.getAttribute('aria-busy') !== 'true') tryFilters(button);
});
