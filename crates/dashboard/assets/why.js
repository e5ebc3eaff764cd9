// Why a route did not match, as the API's preview says it, in words.
import { make } from './dom.js';

const SIGNS = { $eq: 'exactly', $neq: 'not', $gt: '>', $gte: '≥', $lt: '<', $lte: '≤', $in: 'one of', $nin: 'none of', $startsWith: 'beginning with', $endsWith: 'ending with', $exist: 'there:', $not: 'not' };
const text = value => typeof value === 'string' ? value : JSON.stringify(value);
function wanted(expected) {
  if (Array.isArray(expected)) return expected.map(text).join(' or ');
  if (expected === null || typeof expected !== 'object') return text(expected);
  return Object.entries(expected).map(([sign, value]) => `${SIGNS[sign] || sign} ${text(value)}`).join(' and ');
}

/** Nothing for a route that matches. */
export function why(reason) {
  if (!reason) return [];
  const { path, expected, found } = reason;
  if (path === 'enabled') return ['the route is disabled'];
  if (path === 'source_id') return ['the route is of another source'];
  if (path === 'type') return [`the route takes ${wanted(expected)}`];
  // A choice as a whole: there is no one thing that was found.
  if (path.startsWith('$')) return ['none of ', make('code', {}, text(expected)), ' holds'];
  return [make('code', {}, path), ` is ${found === null ? 'not there' : text(found)}, wanted ${wanted(expected)}`];
}
