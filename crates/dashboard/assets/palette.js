// Ctrl-K: any screen, any id, any search; and the words of the search box as one types.
import { $, $$, call, make } from './dom.js';
import { accountsLike, destinationsLike, routes, sources, types } from './names.js';

const dialog = $('#palette');
const input = $('#palette-input');
const list = $('#palette-list');
const ID = /^(evt|dlv|dst|rpl)_[0-9a-z]{26}$/;
const PLACES = { evt: '/events/', dlv: '/deliveries/', dst: '/destinations/', rpl: '/replays/' };

/** What is called so, by name: destinations, and accounts for whoever may look at several. */
async function called(text) {
  const fits = each => each.name.toLowerCase().includes(text.toLowerCase());
  const found = (await destinationsLike(text)).filter(fits).slice(0, 5).map(each => ({ label: each.name, hint: 'destination', run: () => location.assign(`/destinations/${each.id}`) }));
  if (!$('[data-accounts]')) return found;
  return [...found, ...(await accountsLike(text)).slice(0, 5).map(each => ({ label: each.name, hint: 'account', run: () => look(each.id) }))];
}
async function look(account) {
  const answer = await call('/ui/account', { body: { account } });
  if (answer.ok) location.assign('/');
}

function choices(text) {
  const typed = text.trim();
  const found = [];
  if (ID.test(typed)) {
    found.push({ label: `Open ${typed}`, hint: 'id', run: () => location.assign(PLACES[typed.slice(0, 3)] + typed) });
  }
  for (const link of $$('.nav')) found.push({ label: $('span', link).textContent, hint: `g ${link.dataset.key}`, run: () => location.assign(link.href) });
  found.push(
    { label: 'Add a destination', hint: 'new', run: () => location.assign('/destinations/new') },
    { label: 'Replay or backfill', hint: 'new', run: () => location.assign('/replays#replay') },
    { label: 'Try an event on the routes', hint: 'routes', run: () => location.assign('/routes#preview') },
    { label: 'Make a key', hint: 'settings', run: () => location.assign('/settings#keys') },
    { label: 'Dead letters of the last day', hint: 'search', run: () => search('status:dead_letter since:1d') },
    { label: 'What waits', hint: 'search', run: () => search('status:queued,retry_scheduled') },
    { label: 'Events that no route took', hint: 'search', run: () => search('fanout:unmatched') },
    { label: 'Switch the theme', hint: 'd', run: () => { dialog.close(); $('[data-theme-switch]').click(); } },
    { label: 'Blue and orange instead of green and red', hint: 'colours', run: colours },
    { label: 'Keys and words', hint: '?', run: () => { dialog.close(); $('#help').showModal(); } },
    { label: 'Sign out', hint: '', run: () => { dialog.close(); $('[data-sign-out]').click(); } },
  );
  const matching = found.filter(each => !typed || each.label.toLowerCase().includes(typed.toLowerCase()) || each.hint === 'id').slice(0, 9);
  if (typed && !ID.test(typed)) matching.push(...byName, { label: `Search for ${typed}`, hint: 'Enter', run: () => search(typed) });
  return matching;
}
function search(text) {
  const url = new URL('/events', location.href);
  url.searchParams.set('q', text);
  location.assign(url);
}
function colours() {
  const safe = document.documentElement.dataset.colours !== 'safe';
  if (safe) document.documentElement.dataset.colours = 'safe'; else delete document.documentElement.dataset.colours;
  try { localStorage.setItem('posthaste.colours', safe ? 'safe' : ''); } catch { /* for this page alone */ }
  dialog.close();
}

let shown = [], at = 0, byName = [], asked = 0;
async function typed() {
  at = 0;
  byName = [];
  render();
  const text = input.value.trim();
  const turn = ++asked;
  if (!text || ID.test(text)) return;
  // Not for every letter of a word that is typed quickly.
  await new Promise(done => { setTimeout(done, 150); });
  if (turn !== asked) return;
  const found = await called(text);
  if (turn === asked) { byName = found; render(); }
}
function render() {
  shown = choices(input.value);
  at = Math.min(at, Math.max(0, shown.length - 1));
  list.replaceChildren(...shown.map((each, place) => make('li', { role: 'option', id: `choice-${place}`, 'aria-selected': String(place === at), onclick: each.run }, make('span', {}, each.label), make('span', { class: 'quiet' }, each.hint))));
  input.setAttribute('aria-activedescendant', `choice-${at}`);
}
document.addEventListener('palette', () => {
  if (!dialog || dialog.open) return dialog?.close();
  input.value = '';
  at = 0;
  byName = [];
  asked += 1;
  render();
  dialog.showModal();
});
input?.addEventListener('input', typed);
input?.addEventListener('keydown', event => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    at = (at + (event.key === 'ArrowDown' ? 1 : shown.length - 1)) % Math.max(1, shown.length);
    render();
  } else if (event.key === 'Enter') {
    event.preventDefault();
    shown[at]?.run();
  }
});

// --- Completion ------------------------------------------------------------------------------------------------------
const box = $('#search');
const offered = $('#completions');
const words = $$('.words dt').map(term => ({ word: term.textContent, what: term.nextElementSibling?.textContent || '' }));
const values = {
  status: ['queued', 'delivering', 'retry_scheduled', 'delivered', 'dead_letter', 'cancelled'],
  fanout: ['incomplete', 'complete', 'unmatched'],
  reason: ['exhausted', 'rejected', 'gone', 'tls', 'blocked', 'undeliverable', 'expired', 'destination_disabled'],
  since: ['15m', '1h', '6h', '1d', '7d'],
  until: ['15m', '1h', '6h', '1d'],
  http_status: ['400', '404', '410', '429', '500', '502', '503', '504'],
};
const namesOf = async list => (await list).map(each => each.name);
const read = {
  type: async () => (await types()).flatMap(type => type.includes('.') ? [type.replace(/[^.]+$/, '*'), type] : [type]),
  destination: text => namesOf(destinationsLike(text)),
  source: () => namesOf(sources()),
  route: () => namesOf(routes()),
};
read.dest = read.destination;
const quoted = text => /[\s,"]/.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : text;

/** Where the word before the cursor begins: quotes keep together. */
function beginning(text) {
  let [at, open] = [0, false];
  for (let place = 0; place < text.length; place += 1) {
    if (open && text[place] === '\\') place += 1;
    else if (text[place] === '"') open = !open;
    else if (!open && /\s/.test(text[place])) at = place + 1;
  }
  return at;
}
let choice = -1, turn = 0;
async function complete() {
  const before = box.value.slice(0, box.selectionStart ?? box.value.length);
  const last = before.slice(beginning(before));
  const colon = last.indexOf(':') + 1;
  const mine = ++turn;
  if (!colon) return offer(words.filter(({ word }) => word.startsWith(last)).map(({ word, what }) => ({ text: word, what })));
  const word = last.slice(0, colon - 1);
  // Of several values the last is typed.
  const kept = last.slice(0, Math.max(colon, last.lastIndexOf(',') + 1));
  const text = last.slice(kept.length).replace(/^"/, '').toLowerCase();
  const known = values[word] || await read[word]?.(text) || [];
  if (mine !== turn) return;
  const fits = [...new Set(known)].filter(value => value.toLowerCase().includes(text) && value.toLowerCase() !== text);
  fits.sort((a, b) => b.toLowerCase().startsWith(text) - a.toLowerCase().startsWith(text));
  offer(fits.map(value => ({ text: kept + quoted(value), what: '' })));
}
function offer(options) {
  offered.replaceChildren(...options.slice(0, 8).map((option, place) => make('div', { role: 'option', id: `word-${place}`, 'aria-selected': 'false', 'data-text': option.text, onpointerdown: event => { event.preventDefault(); accept(option.text); } }, make('code', {}, option.text), make('span', { class: 'quiet' }, option.what))));
  offered.hidden = options.length === 0 || document.activeElement !== box;
  box.setAttribute('aria-expanded', String(!offered.hidden));
  box.removeAttribute('aria-activedescendant');
  choice = -1;
}
function accept(text) {
  const end = box.selectionStart ?? box.value.length;
  const before = box.value.slice(0, beginning(box.value.slice(0, end)));
  const space = text.endsWith(':') || text.endsWith('.') ? '' : ' ';
  box.value = before + text + space + box.value.slice(end).trimStart();
  box.selectionStart = box.selectionEnd = (before + text + space).length;
  complete();
}
if (box && offered) {
  box.setAttribute('role', 'combobox');
  box.setAttribute('aria-expanded', 'false');
  box.setAttribute('aria-autocomplete', 'list');
  box.addEventListener('input', complete);
  box.addEventListener('focus', complete);
  box.addEventListener('blur', () => { offered.hidden = true; box.setAttribute('aria-expanded', 'false'); });
  box.addEventListener('keydown', event => {
    const options = [...offered.children];
    if (offered.hidden || !options.length) return;
    if (event.key === 'Escape') {
      // The first closes what is offered; else the browser would empty the box.
      event.preventDefault();
      event.stopPropagation();
      offered.hidden = true;
      box.setAttribute('aria-expanded', 'false');
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      choice = (choice + (event.key === 'ArrowDown' ? 1 : options.length - (choice < 0 ? 0 : 1))) % options.length;
      options.forEach((option, place) => option.setAttribute('aria-selected', String(place === choice)));
      box.setAttribute('aria-activedescendant', `word-${choice}`);
    } else if ((event.key === 'Enter' || event.key === 'Tab') && choice >= 0) {
      event.preventDefault();
      accept(options[choice].dataset.text);
    } else if (event.key === 'Tab' && options.length === 1) {
      event.preventDefault();
      accept(options[0].dataset.text);
    }
  });
}
