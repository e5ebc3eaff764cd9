// The form of a destination: its guide fills in limits, and the ruler shows the retries that are typed.
import { $, $$ } from './dom.js';

document.addEventListener('click', event => {
  const button = event.target.closest?.('[data-fill]');
  const form = button?.closest('form');
  if (!form) return;
  for (const [name, value] of Object.entries(JSON.parse(button.dataset.fill))) {
    const field = form.elements.namedItem(name);
    if (!field) continue;
    field.value = value;
    field.dataset.chosen = '';
  }
  form.elements.namedItem(Object.keys(JSON.parse(button.dataset.fill))[0])?.focus();
});

/** What a public host is begun with: few know what they take. */
const PUBLIC = 3;
const HERE = /^(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|\[)|\.(local|internal|lan)$/;
function suggest(field) {
  const limit = field.form.elements.namedItem(field.dataset.suggest);
  if (!limit || 'chosen' in limit.dataset) return;
  let host = '';
  try { host = new URL(field.value).hostname; } catch { /* it is being typed */ }
  limit.value = host.includes('.') && !HERE.test(host) ? PUBLIC : '';
}

function draw(field) {
  const svg = $('svg', document.getElementById(field.dataset.ruler) || field);
  if (!svg) return;
  const pauses = (field.value.trim() || field.placeholder).split(/[\s,]+/).filter(Boolean).map(Number);
  if (pauses.some(pause => !(pause >= 0))) return;
  const at = pauses.reduce((all, pause) => [...all, all[all.length - 1] + pause], [0]);
  const scale = seconds => Math.log(1 + seconds);
  const last = Math.max(1, scale(at[at.length - 1]));
  const element = (name, attributes, text = '') => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.textContent = text;
    return made;
  };
  const span = s => s < 120 ? `${s} s` : s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${(s / 3600).toFixed(1).replace(/\.0$/, '')} h` : `${(s / 86400).toFixed(1)} d`;
  let told = -Infinity;
  const drawn = at.flatMap((seconds, place) => {
    const x = scale(seconds) / last * 90;
    const dot = element('circle', { class: 'moment', cx: `${x + 4}%`, cy: 10, r: 5 });
    dot.append(element('title', {}, place ? `attempt ${place + 1}, ${span(seconds)} after the first` : '1st attempt, at once'));
    if (x - told < 12) return [dot];
    told = x;
    return [dot, element('text', { x: `${x + 4}%`, y: 31 }, place ? span(seconds) : 'at once')];
  });
  svg.replaceChildren(element('line', { class: 'grid', x1: '4%', x2: '94%', y1: 10, y2: 10 }), ...drawn);
}

document.addEventListener('input', event => {
  const field = event.target;
  if (field.dataset?.ruler) draw(field);
  if (field.dataset?.suggest) suggest(field);
  if (field.name === 'max_concurrency') field.dataset.chosen = '';
});
$$('[data-ruler]').forEach(draw);
