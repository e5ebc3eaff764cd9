// What the other modules share: elements, toasts, the call of the API by session, and a page read as a document.
export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element of text and other elements: never of markup. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name === 'class') element.className = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

// The server's clock, as of the moment this page was made.
const served = Number(document.documentElement.dataset.now) || Date.now();
const loaded = performance.timeOrigin + performance.now();
/** Milliseconds, as the server counts them. */
export const now = () => served + (performance.timeOrigin + performance.now() - loaded);

export function toast(text, bad = false) {
  const shown = make('div', { class: bad ? 'toast bad' : 'toast', role: bad ? 'alert' : null }, text);
  const stack = $('#toasts');
  stack.append(shown);
  while (stack.children.length > 4) stack.firstChild.remove();
  setTimeout(() => shown.remove(), bad ? 9000 : 4000);
}

/** Says something on the page that comes next. */
export function sayThere(text) {
  try { sessionStorage.setItem('posthaste.said', text); } catch { /* then not */ }
}
try {
  const said = sessionStorage.getItem('posthaste.said');
  sessionStorage.removeItem('posthaste.said');
  if (said && document.getElementById('toasts')) toast(said);
} catch { /* no storage */ }

/** A sentence of ours, in parts: what is in backticks is code. */
export const inWords = text => text.split('`').map((part, place) => place % 2 ? make('code', {}, part) : part);

/** A problem document as a sentence. */
export function problemText(problem) {
  if (!problem || typeof problem !== 'object') return 'It did not work, and nothing said why.';
  const said = problem.detail || problem.title || 'It did not work.';
  return problem.code ? `${said} (${problem.code})` : said;
}

/** Calls the API by the session. Gives { ok, status, body }; a body that is not JSON is text. */
export async function call(path, { method = 'POST', body, headers = {} } = {}) {
  const url = path.startsWith('/ui/') ? path : `/ui${path}`;
  const options = { method, headers: { accept: 'application/json', ...headers }, credentials: 'same-origin', cache: 'no-store' };
  if (method !== 'GET') options.headers['x-csrf-token'] = document.documentElement.dataset.csrf || '';
  if (body !== undefined) {
    options.headers['content-type'] = 'application/json';
    options.body = typeof body === 'string' ? body : JSON.stringify(body);
  }
  try {
    const answer = await fetch(url, options);
    const text = await answer.text();
    let parsed = text;
    try { parsed = text ? JSON.parse(text) : null; } catch { /* text it is */ }
    if (answer.status === 401) signedOut();
    return { ok: answer.ok, status: answer.status, body: parsed };
  } catch {
    return { ok: false, status: 0, body: { detail: 'The server was not reached. Nothing is known to have happened.' } };
  }
}

// Whoever is on the way elsewhere already gets there: the way in is shown there, if it must be. A download leaves nothing, so
// this does not hold for long.
let leftAt = -Infinity;
addEventListener('beforeunload', () => { leftAt = performance.now(); });
export function signedOut() {
  if (performance.now() - leftAt < 5000) return;
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** A page as a document: parsed by the browser as it comes in, so that no text of ours ever becomes markup. */
export function readPage(url = location.href) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('GET', url);
    request.responseType = 'document';
    request.timeout = 15000;
    request.onload = () => {
      if (request.responseURL && new URL(request.responseURL).pathname === '/login') signedOut();
      request.response && request.status < 500 ? resolve(request.response) : reject(new Error(String(request.status)));
    };
    request.onerror = request.ontimeout = () => reject(new Error('not reached'));
    request.send();
  });
}

const after = [];
/** Called with the root of what has just been put into the page. */
export const whenRendered = task => { after.push(task); task(document); };
export const rendered = root => after.forEach(task => task(root));

/** Puts what is new in a region of the page in the place of what is there, unless somebody is writing in it. */
export function replaceRegion(fresh, id) {
  const [old, next] = [document.getElementById(id), fresh.getElementById(id)];
  if (!old || !next) return;
  if (old.contains(document.activeElement) && document.activeElement.matches('input:not([type=checkbox]), textarea, select')) return;
  const open = $$('details[open]', old).map(each => keyOf(each)).filter(Boolean);
  const scrolls = $$('.strip, pre.box', old).map(each => each.scrollTop);
  const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const adopted = document.adoptNode(next);
  $$('details', adopted).forEach(each => { if (open.includes(keyOf(each))) each.open = true; });
  old.replaceWith(adopted);
  $$('.strip, pre.box', adopted).forEach((each, place) => { each.scrollTop = scrolls[place] || 0; });
  rendered(adopted);
  if (focused) $$('button, a, summary', adopted).find(each => keyOf(each) === focused)?.focus({ preventScroll: true });
}

/** What an element is recognised by in the next version of its region. */
function keyOf(element) {
  const lane = element.closest('[data-key], [id]');
  const summary = element.tagName === 'DETAILS' ? element.querySelector('summary')?.textContent : element.dataset.action || element.getAttribute('href') || element.textContent;
  return `${lane?.dataset.key || lane?.id || ''} ${$$('details', lane || document).indexOf(element)} ${summary}`;
}

export async function refresh(url = location.href) {
  const fresh = await readPage(url);
  const ids = $$('[data-region]').map(each => each.id).filter(id => !document.getElementById(id).matches('[data-list]'));
  ids.forEach(id => replaceRegion(fresh, id));
  return fresh;
}
