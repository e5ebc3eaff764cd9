// What is called how: destinations, sources, types seen. Read once a page, when somebody types, for completion and for lists.
import { $, call, make } from './dom.js';

const once = {};
const read = (path, pick) => once[path] ||= call(path, { method: 'GET' }).then(answer => answer.ok ? answer.body.data.map(pick) : []);
const named = each => ({ id: each.id, name: each.name || each.uid || each.id });

export const destinations = () => read('/v1/destinations?limit=200', named);
export const sources = () => read('/v1/sources?limit=200', named);
export const routes = () => read('/v1/routes?limit=200', named);
export const types = async () => [...new Set(await read('/v1/events?limit=200', each => each.type))].sort();
/** Beyond the first two hundred by what is typed. */
export const destinationsLike = async text => {
  const all = await destinations();
  return all.length < 200 || text.length < 2 ? all : [...all, ...await read(`/v1/destinations?limit=20&name=${encodeURIComponent(text)}`, named)];
};
export const accountsLike = text => read(`/v1/accounts?limit=8&name=${encodeURIComponent(text)}`, named);

/** Of one that a page mentions, or that was read. */
export async function destinationName(id) {
  return $(`a[href="/destinations/${CSS.escape(id)}"]`)?.textContent || (await destinations()).find(each => each.id === id)?.name || id;
}

// A field that takes types offers those seen.
document.addEventListener('focusin', async event => {
  if (event.target.getAttribute?.('list') !== 'known-types' || $('#known-types')) return;
  const list = make('datalist', { id: 'known-types' });
  document.body.append(list);
  list.append(...(await types()).flatMap(type => [type, type.replace(/[^.]+$/, '*')]).filter((each, at, all) => all.indexOf(each) === at).map(value => make('option', { value })));
});
