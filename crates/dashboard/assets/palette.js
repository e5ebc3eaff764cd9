// Ctrl-K: any screen, any id, any search; and the words of the search box as one types.
import { $, $$, make } from './dom.js';

const dialog = $('#palette');
const input = $('#palette-input');
const list = $('#palette-list');
const ID = /^(evt|dlv|dst|rpl)_[0-9a-z]{26}$/;

function choices(text) {
  const typed = text.trim();
  const found = [];
  if (ID.test(typed)) {
    const path = { evt: '/events/', dlv: '/deliveries/', dst: '/destinations/', rpl: '/replays/' }[typed.slice(0, 3)];
    found.push({ label: `Open ${typed}`, hint: 'id', run: () => location.assign(path + typed) });
  }
  for (const link of $$('.nav')) found.push({ label: $('span', link).textContent, hint: `g ${link.dataset.key}`, run: () => location.assign(link.href) });
  found.push(
    { label: 'Add a destination', hint: 'new', run: () => location.assign('/destinations/new') },
    { label: 'Dead letters of the last day', hint: 'search', run: () => search('status:dead_letter since:1d') },
    { label: 'What waits', hint: 'search', run: () => search('status:queued,retry_scheduled') },
    { label: 'Events that no route took', hint: 'search', run: () => search('fanout:unmatched') },
    { label: 'Switch the theme', hint: 'd', run: () => { dialog.close(); $('[data-theme-switch]').click(); } },
    { label: 'Blue and orange instead of green and red', hint: 'colours', run: colours },
    { label: 'Keys and words', hint: '?', run: () => { dialog.close(); $('#help').showModal(); } },
    { label: 'Sign out', hint: '', run: () => { dialog.close(); $('[data-sign-out]').click(); } },
  );
  const matching = found.filter(each => !typed || each.label.toLowerCase().includes(typed.toLowerCase()) || each.hint === 'id');
  if (typed && !ID.test(typed)) matching.push({ label: `Search for ${typed}`, hint: 'Enter', run: () => search(typed) });
  return matching.slice(0, 9);
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

let shown = [], at = 0;
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
  render();
  dialog.showModal();
});
input?.addEventListener('input', () => { at = 0; render(); });
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
  'status:': ['queued', 'delivering', 'retry_scheduled', 'delivered', 'dead_letter', 'cancelled'],
  'fanout:': ['incomplete', 'complete', 'unmatched'],
  'reason:': ['exhausted', 'rejected', 'gone', 'tls', 'blocked', 'undeliverable', 'expired', 'destination_disabled'],
  'since:': ['15m', '1h', '6h', '1d', '7d'],
  'http_status:': ['429', '500', '502', '503', '504'],
};
let choice = -1;
function complete() {
  const before = box.value.slice(0, box.selectionStart ?? box.value.length);
  const last = before.split(/\s/).pop();
  const colon = last.indexOf(':') + 1;
  const options = colon
    ? (values[last.slice(0, colon)] || []).filter(value => value.startsWith(last.slice(colon)) && value !== last.slice(colon)).map(value => ({ text: last.slice(0, colon) + value, what: '' }))
    : words.filter(({ word }) => word.startsWith(last)).map(({ word, what }) => ({ text: word, what }));
  offered.replaceChildren(...options.slice(0, 7).map((option, place) => make('div', { role: 'option', id: `word-${place}`, 'aria-selected': 'false', 'data-text': option.text, onpointerdown: event => { event.preventDefault(); accept(option.text); } }, make('code', {}, option.text), make('span', { class: 'quiet' }, option.what))));
  offered.hidden = options.length === 0 || document.activeElement !== box;
  choice = -1;
}
function accept(text) {
  const end = box.selectionStart ?? box.value.length;
  const before = box.value.slice(0, end).replace(/\S*$/, '');
  const space = text.endsWith(':') || text.endsWith('.') ? '' : ' ';
  box.value = before + text + space + box.value.slice(end).trimStart();
  box.selectionStart = box.selectionEnd = (before + text + space).length;
  complete();
}
if (box && offered) {
  box.addEventListener('input', complete);
  box.addEventListener('focus', complete);
  box.addEventListener('blur', () => { offered.hidden = true; });
  box.addEventListener('keydown', event => {
    const options = [...offered.children];
    if (offered.hidden || !options.length) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
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
