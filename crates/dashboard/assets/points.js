// Values on hover of what has no axes: sparklines, whose values stand on them, and points by time, which stand in a table.
import { $, $$, make, whenRendered } from './dom.js';

whenRendered(root => {
  $$('[data-spark]', root).forEach(armSparkline);
  $$('[data-timeline]', root).forEach(armTimeline);
});

/** A tip beside x of a box so wide; it is there only while somebody points, so that what is read may be replaced otherwise. */
function put(tip, box, x, width) {
  if (!tip.isConnected) box.append(tip);
  const right = x > width / 2;
  tip.style.left = right ? 'auto' : `${x + 10}px`;
  tip.style.right = right ? `${width - x + 10}px` : 'auto';
}

function armSparkline(box) {
  const lines = box.dataset.spark.split('\n').filter(Boolean).map(line => line.split('|'));
  const [from, step] = [Number(box.dataset.from), Number(box.dataset.step)];
  const steps = Math.max(0, ...lines.map(line => line.length - 1));
  if (steps < 2) return;
  const tip = make('div', { class: 'tip' });
  const cursor = make('div', { class: 'cursor' });
  box.addEventListener('pointermove', event => {
    const { left, width } = box.getBoundingClientRect();
    const place = Math.round(Math.max(0, Math.min(1, (event.clientX - left) / width)) * (steps - 1));
    const at = new Date(from + place * step).toISOString();
    const when = step < 3600000 ? at.slice(11, 16) : `${at.slice(5, 10)} ${at.slice(11, 16)}`;
    tip.replaceChildren(make('strong', {}, when), ...lines.map(line => ` · ${line[0]} ${line[place + 1]}`));
    const x = place / (steps - 1) * width;
    cursor.style.left = `${x}px`;
    if (!cursor.isConnected) box.append(cursor);
    put(tip, box, x, width);
  });
  box.addEventListener('pointerleave', () => { tip.remove(); cursor.remove(); });
}

/** How near somebody must point, in pixels. */
const NEAR = 24;
function armTimeline(chart) {
  const plot = $('.plot', chart);
  const rows = $$('tr[data-x]', chart);
  if (!plot || !rows.length) return;
  const tip = make('div', { class: 'tip' });
  let nearest = null;
  plot.addEventListener('pointermove', event => {
    const box = plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const far = row => Math.hypot(row.dataset.x / 100 * box.width - x, row.dataset.y / 100 * box.height - y);
    nearest = rows.reduce((best, row) => far(row) < far(best) ? row : best, rows[0]);
    if (far(nearest) > NEAR) nearest = null;
    plot.toggleAttribute('data-near', !!nearest);
    if (!nearest) return tip.remove();
    tip.replaceChildren([...nearest.children].map(cell => cell.textContent.trim()).filter(Boolean).join(' · '));
    put(tip, plot, nearest.dataset.x / 100 * box.width, box.width);
  });
  plot.addEventListener('pointerleave', () => { tip.remove(); nearest = null; });
  plot.addEventListener('click', () => { const link = nearest && $('a', nearest); if (link) location.assign(link.href); });
}
