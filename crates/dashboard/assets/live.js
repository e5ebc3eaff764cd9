// What happens, as it happens. The stream only says that something changed; what is shown is what the server renders, read at
// most every two seconds. A row never moves while somebody points at the list, selects in it or has scrolled: new ones wait
// behind a pill.
import { $, $$, problemText, readPage, replaceRegion, rendered, signedOut } from './dom.js';

const parameters = document.body.dataset.live;
const EVERY = 2000;
const STREAM = `/ui/v1/stream?${parameters}`;
const PAUSE = 'Pause what is live (p)';
let source, paused = false, dirty = false, busy = false, lastRead = 0, failures = 0, timer, spoken = 0;

function say(state, word, more = PAUSE) {
  const live = $('#live');
  if (!live) return;
  live.dataset.state = state;
  live.title = more;
  // A screen reader is told at most every five seconds.
  const wait = Math.max(0, spoken + 5000 - Date.now());
  live.setAttribute('aria-live', wait ? 'off' : 'polite');
  if (!wait) spoken = Date.now();
  $('#live-word').textContent = word;
}

function connect() {
  source = new EventSource(STREAM);
  source.onopen = () => { failures = 0; countAnew(); say('live', 'Live'); if (lastRead) changed(); };
  source.onerror = () => {
    if (paused) return;
    say('cut', 'Cut off, reconnecting');
    // The browser comes back by itself unless it was refused.
    if (source.readyState === EventSource.CLOSED) {
      failures += 1;
      refused();
    }
  };
  for (const name of ['event.received', 'delivery.changed', 'destination.changed', 'reset']) {
    source.addEventListener(name, () => {
      if (name === 'event.received') counted();
      changed();
    });
  }
}

/** Asks once more, for what the refusal said: a source of events does not tell. */
async function refused() {
  const asking = new AbortController();
  const answer = await fetch(STREAM, { credentials: 'same-origin', cache: 'no-store', signal: asking.signal }).catch(() => null);
  if (answer?.status === 401) return signedOut();
  const problem = answer && !answer.ok ? await answer.json().catch(() => null) : null;
  asking.abort();
  if (paused) return;
  if (answer?.status === 429) say('cut', 'Not live: too many pages are', problemText(problem));
  clearTimeout(timer);
  timer = setTimeout(connect, Math.max(1000 * Number(answer?.headers.get('retry-after') || 0), Math.min(30000, 1000 * 2 ** failures)));
}

// The rate beside "Events", over ten seconds: counted by the second, so that a thousand cost no more than one.
const seconds = Array(10).fill(0);
let second = 0, countedSince = 0;
function counted() {
  seconds[second] += 1;
}
function countAnew() {
  seconds.fill(0);
  countedSince = performance.now();
}
setInterval(() => {
  const events = seconds.reduce((sum, each) => sum + each);
  const over = Math.min(seconds.length, (performance.now() - countedSince) / 1000);
  const rate = events / over;
  const shown = $('[data-event-rate]');
  if (shown && over >= 2) shown.textContent = events ? `${rate < 9.95 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en')}/s` : '';
  second = (second + 1) % seconds.length;
  seconds[second] = 0;
}, 1000);

function changed() {
  dirty = true;
  schedule();
}
function schedule() {
  if (!dirty || busy || paused || document.hidden) return;
  const wait = Math.max(0, lastRead + EVERY - Date.now());
  busy = true;
  setTimeout(update, wait);
}
async function update() {
  dirty = false;
  lastRead = Date.now();
  try {
    if (!paused) merge(await readPage());
  } catch { /* the next change tries again */ }
  busy = false;
  schedule();
}

/** Whether somebody is at the list, so that it must not move. */
function inUse(list) {
  return list.matches(':hover') || list.contains(document.activeElement) || scrollY > 40 || $$('[data-pick]:checked', list).length > 0 || !!$('.split[data-open]');
}

function merge(fresh) {
  for (const region of $$('[data-region]')) {
    if (!region.matches('[data-list]')) {
      const dragged = region.querySelector('.brush, .tip');
      // Nor is what somebody fills in, or has just been shown once.
      const held = region.querySelector('details[open] > form, [data-samples][open], [data-revealed]:not([hidden])');
      if (!dragged && !held && !(region.matches(':hover') && region.querySelector('form'))) replaceRegion(fresh, region.id);
      continue;
    }
    mergeList(region, fresh.getElementById(region.id));
  }
}

function mergeList(list, next) {
  if (!next) return;
  const [body, nextBody] = [$('tbody', list), $('tbody', next)];
  if (!body || !nextBody) { replaceRegion(next.ownerDocument, list.id); return; }
  const shown = new Map($$('tr[data-key]', body).map(row => [row.dataset.key, row]));
  const rows = $$('tr[data-key]', nextBody);
  const added = rows.filter(row => !shown.has(row.dataset.key));
  const pill = $('#pill');
  if (!pill || !inUse(list)) {
    // Nobody is there: the list as it is now.
    const before = new Set(shown.keys());
    const focus = document.activeElement.closest?.('tr[data-key]')?.dataset.key;
    const selected = $('tr[aria-selected=true]', list)?.dataset.key;
    const adopted = document.adoptNode(nextBody);
    if (pill) $$('tr[data-key]', adopted).forEach(row => { if (!before.has(row.dataset.key)) row.classList.add('fresh'); });
    $$('[data-pick]:checked', body).forEach(box => { const again = $(`[data-pick="${CSS.escape(box.dataset.pick)}"]`, adopted); if (again) again.checked = true; });
    body.replaceWith(adopted);
    if (selected) $(`tr[data-key="${CSS.escape(selected)}"]`, adopted)?.setAttribute('aria-selected', 'true');
    if (focus) $(`tr[data-key="${CSS.escape(focus)}"]`, adopted)?.focus({ preventScroll: true });
    rendered(adopted);
    if (pill) pill.hidden = true;
    return;
  }
  // Rows that are there change where they stand; new ones wait.
  for (const row of rows) {
    const old = shown.get(row.dataset.key);
    if (!old || old.contains(document.activeElement) || old.textContent === row.textContent) continue;
    const again = document.adoptNode(row);
    const [box, oldBox] = [$('[data-pick]', again), $('[data-pick]', old)];
    if (box && oldBox) box.checked = oldBox.checked;
    if (old.getAttribute('aria-selected')) again.setAttribute('aria-selected', 'true');
    old.replaceWith(again);
    rendered(again);
  }
  pill.hidden = added.length === 0;
  $('#pill-count').textContent = added.length >= rows.length && rows.length >= 50 ? `${rows.length}+` : added.length;
}

function togglePause() {
  paused = !paused;
  $$('.button[data-pause-live]').forEach(button => { button.firstChild.textContent = paused ? 'Resume ' : 'Pause '; });
  clearTimeout(timer);
  if (paused) { source?.close(); say('paused', 'Paused', 'Go on (p)'); } else { say('connecting', 'Connecting'); connect(); changed(); }
}

document.addEventListener('click', async event => {
  const pause = event.target.closest?.('[data-pause-live]');
  if (pause) return togglePause();
  if (event.target.closest?.('#pill')) {
    $('#pill').hidden = true;
    scrollTo({ top: 0 });
    const fresh = await readPage().catch(() => null);
    if (fresh) replaceRegion(fresh, 'rows');
  }
});
document.addEventListener('visibilitychange', schedule);
document.addEventListener('changed', changed);
// A replay makes its deliveries whether or not one of them ends just now.
setInterval(() => { if ($('[data-refresh]')) changed(); }, 3000);

if (parameters && 'EventSource' in window) connect();
addEventListener('pagehide', () => source?.close());
addEventListener('pageshow', event => { if (event.persisted && parameters && !paused) connect(); });
