// The frame: theme, times that tick, copying, keys, tabs, the pane beside a list.
import { $, $$, now, toast, whenRendered, readPage, replaceRegion, rendered } from './dom.js';
import './actions.js';
import './charts.js';
import './choices.js';
import './points.js';
import './filters.js';
import './limits.js';
import './live.js';
import './palette.js';

const stored = (key, value) => {
  try { return value === undefined ? localStorage.getItem(`posthaste.${key}`) : localStorage.setItem(`posthaste.${key}`, value); } catch { return null; }
};

// --- Theme -----------------------------------------------------------------------------------------------------------
const themes = ['system', 'light', 'dark'];
export function switchTheme() {
  const at = themes.indexOf(stored('theme') || 'system');
  const next = themes[(at + 1) % themes.length];
  stored('theme', next);
  if (next === 'system') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = next;
  labelTheme();
  toast(`Theme: ${next}`);
}
function labelTheme() {
  const button = $('[data-theme-switch]');
  if (button) button.setAttribute('aria-label', `Theme: ${stored('theme') || 'system'}`);
}
labelTheme();
if (stored('colours') === 'safe') document.documentElement.dataset.colours = 'safe';

// --- Moments ---------------------------------------------------------------------------------------------------------
function span(seconds) {
  const two = (large, unit, small, smallUnit) => small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'min', seconds < 600 ? seconds % 60 : 0, 's');
  if (seconds < 86400) return two(Math.floor(seconds / 3600), 'h', Math.floor(seconds % 3600 / 60), 'min');
  return two(Math.floor(seconds / 86400), 'd', Math.floor(seconds % 86400 / 3600), 'h');
}
function age(seconds) {
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}
function tick() {
  const at = now();
  for (const element of $$('time[data-relative], time[data-elapsed], time[data-countdown]')) {
    const seconds = Math.floor((at - Date.parse(element.dateTime)) / 1000);
    let text;
    if ('relative' in element.dataset) text = seconds < 0 ? `in ${age(-seconds)}` : `${age(seconds)} ago`;
    else if ('elapsed' in element.dataset) text = span(Math.max(0, seconds));
    else text = seconds < 0 ? span(-seconds) : 'any moment';
    if (element.textContent !== text) element.textContent = text;
  }
}
setInterval(tick, 1000);
whenRendered(root => {
  for (const element of $$('time[datetime]', root)) {
    if (element.title) continue;
    element.title = `${element.dateTime.replace('T', ' ').replace(/(\.\d+)?Z$/, '')} UTC\n${new Date(element.dateTime).toLocaleString()} here`;
  }
  tick();
});

// --- Copying ---------------------------------------------------------------------------------------------------------
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https there is no clipboard to ask for: the old way.
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  toast('Copied');
}

// --- Tabs ------------------------------------------------------------------------------------------------------------
whenRendered(root => {
  for (const group of $$('[data-tabs]', root)) {
    const tabs = $$('[role=tab]', group);
    const known = tabs.find(tab => `#${tab.getAttribute('aria-controls')}` === location.hash);
    pick(group, known || tabs.find(tab => tab.getAttribute('aria-controls') === group.dataset.picked) || tabs[0]);
  }
});
function pick(group, chosen) {
  if (!chosen) return;
  for (const tab of $$('[role=tab]', group)) {
    const is = tab === chosen;
    tab.setAttribute('aria-selected', is);
    tab.tabIndex = is ? 0 : -1;
    const panel = document.getElementById(tab.getAttribute('aria-controls')) || group.querySelector(`#${tab.getAttribute('aria-controls')}`);
    if (panel) panel.hidden = !is;
  }
  group.dataset.picked = chosen.getAttribute('aria-controls');
}

document.addEventListener('input', event => {
  if (!event.target.matches('[data-find-operation]')) return;
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const item of $$('[data-words]')) item.hidden = !words.every(word => item.dataset.words.includes(word));
  for (const list of $$('.docs-list ul')) list.hidden = list.previousElementSibling.hidden = ![...list.children].some(item => !item.hidden);
});

// --- What scrolls by itself can be scrolled by keys --------------------------------------------------------------------
function reachable(each) {
  const scrolls = each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1;
  if (scrolls) each.tabIndex = 0; else each.removeAttribute('tabindex');
}
const scrolling = new ResizeObserver(entries => entries.forEach(entry => reachable(entry.target)));
whenRendered(root => $$('pre, .scroll, .strip, .docs-list', root).forEach(each => { reachable(each); scrolling.observe(each); }));

// --- The pane beside a list ------------------------------------------------------------------------------------------
export async function openPane(url, row) {
  const split = $('.split');
  if (!split) return location.assign(url);
  $$('tr[aria-selected]').forEach(each => each.removeAttribute('aria-selected'));
  row?.setAttribute('aria-selected', 'true');
  try {
    const fresh = await readPage(url);
    history.pushState(null, '', url);
    replaceRegion(fresh, 'detail');
    $('#detail').hidden = false;
    split.toggleAttribute('data-open', true);
    $('#detail').scrollTop = 0;
  } catch {
    location.assign(url);
  }
}
export function closePane() {
  const split = $('.split[data-open]');
  if (!split) return false;
  const url = new URL(location.href);
  url.searchParams.delete('selected');
  history.pushState(null, '', url);
  split.removeAttribute('data-open');
  $('#detail').hidden = true;
  const row = $('tr[aria-selected=true]');
  row?.removeAttribute('aria-selected');
  row?.focus({ preventScroll: true });
  return true;
}
addEventListener('popstate', () => location.reload());
const selected = new URL(location.href).searchParams.get('selected');
if (selected) $(`tr[data-event="${CSS.escape(selected)}"]`)?.setAttribute('aria-selected', 'true');

// --- Selecting rows --------------------------------------------------------------------------------------------------
export const picked = () => $$('[data-pick]:checked').map(box => box.dataset.pick);
export function showPicked() {
  const bar = $('#selection');
  if (!bar) return;
  bar.hidden = picked().length === 0;
  $('#selection-count').textContent = picked().length;
  const all = $('[data-pick-all]');
  if (all) { all.checked = picked().length === $$('[data-pick]').length; all.indeterminate = picked().length > 0 && !all.checked; }
}
let lastBox = null;
function pickRow(box, range) {
  const boxes = $$('[data-pick]');
  if (range && lastBox && boxes.includes(lastBox)) {
    const [a, b] = [boxes.indexOf(lastBox), boxes.indexOf(box)].sort((x, y) => x - y);
    boxes.slice(a, b + 1).forEach(each => { each.checked = box.checked; });
  }
  lastBox = box;
  showPicked();
}

document.addEventListener('click', event => {
  const target = event.target instanceof Element ? event.target : null;
  if (!target) return;
  const on = selector => target.closest(selector);
  const copied = on('[data-copy]');
  if (copied) return void copy(copied.dataset.copy);
  const tab = on('[role=tab]');
  if (tab) return pick(tab.closest('[data-tabs]'), tab);
  if (on('[data-theme-switch]')) return switchTheme();
  if (on('[data-help]')) return $('#help').showModal();
  if (on('[data-close]')) return on('dialog')?.close();
  if (on('[data-close-pane]')) return void closePane();
  if (on('[data-back]')) return history.back();
  if (on('[data-clear-selection]')) { $$('[data-pick]:checked, [data-pick-all]').forEach(box => { box.checked = false; }); return showPicked(); }
  if (on('[data-test]')) return openTest();
  const menu = on('[data-menu]');
  if (menu) { const open = $('#side').toggleAttribute('data-open'); return menu.setAttribute('aria-expanded', open); }
  if (!on('#side')) $('#side')?.removeAttribute('data-open');
  const all = on('[data-pick-all]');
  if (all) { $$('[data-pick]').forEach(each => { each.checked = all.checked; }); return showPicked(); }
  const box = on('[data-pick]');
  if (box) return pickRow(box, event.shiftKey);
  if (target.tagName === 'DIALOG') return target.close();
  // A row is opened beside the list; with a key held the browser does what it always does.
  const row = on('.split tr[data-event]');
  if (row && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    const link = $('.row-link', row);
    if (on('a') && on('a') !== link || on('button, input, summary')) return;
    if (getSelection()?.toString()) return;
    event.preventDefault();
    openPane(link.href, row);
  }
});

function openTest() {
  const tab = $('[role=tab][aria-controls=test]');
  if (!tab) return;
  pick(tab.closest('[data-tabs]'), tab);
  $('#test-form')?.scrollIntoView({ block: 'center' });
  $('#test-form button')?.focus();
}

// --- Keys ------------------------------------------------------------------------------------------------------------
const singleKeys = () => stored('keys') !== 'off';
const keysBox = $('[data-single-keys]');
if (keysBox) {
  keysBox.checked = singleKeys();
  keysBox.addEventListener('change', () => stored('keys', keysBox.checked ? 'on' : 'off'));
}
let goPressed = 0;
// Of a table, or a list of cards.
const ROWS = '.list tbody tr[data-key], .groups > [data-key]';
function move(by) {
  const rows = $$(ROWS).filter(each => each.offsetParent);
  if (!rows.length) return;
  const at = rows.indexOf(row());
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
  next.tabIndex = 0;
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
  if ($('.split[data-open]') && next.dataset.event) openPane($('.row-link', next).href, next).then(() => next.focus({ preventScroll: true }));
}
const row = () => document.activeElement.closest?.(ROWS) || $('tr[aria-selected=true]');
/** What is selected, else the row one is at, else what the page is about. */
function replayHere() {
  if (!picked().length) {
    const here = row();
    const button = (here && $('[data-replay]', here)) || $('#detail:not([hidden]) [data-replay]') || (!here && $('[data-replay]'));
    if (button) return button.click();
    const box = here && $('[data-pick]', here);
    if (!box) return;
    box.checked = true;
    pickRow(box, false);
  }
  $('[data-replay-selected]')?.click();
}
document.addEventListener('keydown', event => {
  const typing = event.target.matches?.('input:not([type=checkbox]), textarea, select, [contenteditable]');
  if ((event.ctrlKey || event.metaKey) && event.key === 'k') { event.preventDefault(); return document.dispatchEvent(new Event('palette')); }
  if (event.key === 'Escape') {
    if (typing) return event.target.blur();
    if (!$('dialog[open]')) closePane();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || $('dialog[open]')) return;
  if (event.key === 'Enter' && document.activeElement.matches(ROWS)) {
    const link = $('.row-link', document.activeElement);
    if (link) { event.preventDefault(); $('.split') && document.activeElement.dataset.event ? openPane(link.href, document.activeElement) : link.click(); }
    return;
  }
  if (event.key === 'ArrowDown' && document.activeElement.matches(ROWS)) { event.preventDefault(); return move(1); }
  if (event.key === 'ArrowUp' && document.activeElement.matches(ROWS)) { event.preventDefault(); return move(-1); }
  if (!singleKeys()) return;
  if (goPressed && performance.now() - goPressed < 1200) {
    goPressed = 0;
    const to = $(`.nav[data-key="${CSS.escape(event.key)}"]`);
    if (to) { event.preventDefault(); return location.assign(to.href); }
  }
  const keys = {
    '/': () => $('#search')?.focus(),
    '?': () => $('#help').showModal(),
    g: () => { goPressed = performance.now(); },
    j: () => move(1),
    k: () => move(-1),
    d: switchTheme,
    p: () => $('[data-pause-live]')?.click(),
    t: openTest,
    r: replayHere,
    x: () => { const box = $('[data-pick]', row() || document.createElement('i')); if (box) { box.checked = !box.checked; pickRow(box, false); } },
    X: () => { const box = $('[data-pick]', row() || document.createElement('i')); if (box) { box.checked = true; pickRow(box, true); } },
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
// A form that is folded away, by its address.
function unfold() {
  const named = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (named?.tagName === 'DETAILS') { named.open = true; named.scrollIntoView({ block: 'start' }); }
}
addEventListener('hashchange', unfold);
unfold();
rendered(document.createElement('i'));
