// Values on hover, read from the table under each chart; and a time range by dragging.
import { $, $$, make, whenRendered } from './dom.js';

whenRendered(root => $$('[data-chart]', root).forEach(arm));

function arm(chart) {
  const plot = $('.plot', chart);
  const rows = $$('.chart-table tbody tr', chart);
  const heads = $$('.chart-table thead th', chart).map(head => head.textContent);
  if (!plot || rows.length < 2) return;
  const cursor = make('div', { class: 'cursor', hidden: true });
  const tip = make('div', { class: 'tip', hidden: true });
  let start = null, brush = null;

  const place = event => {
    const box = plot.getBoundingClientRect();
    const part = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    return { part, row: Math.round(part * (rows.length - 1)), width: box.width };
  };
  plot.addEventListener('pointermove', event => {
    // Only while somebody points there: a chart that is read is not replaced by a newer one.
    if (!tip.isConnected) plot.append(cursor, tip);
    const { part, row, width } = place(event);
    const x = row / (rows.length - 1) * width;
    const cells = [...rows[row].children].map(cell => cell.textContent);
    tip.replaceChildren(make('strong', {}, cells[0]), ...cells.slice(1).flatMap((value, at) => [` · ${heads[at + 1]} ${value}`]));
    cursor.hidden = tip.hidden = false;
    cursor.style.left = `${x}px`;
    const right = x > width / 2;
    tip.style.left = right ? 'auto' : `${x + 10}px`;
    tip.style.right = right ? `${width - x + 10}px` : 'auto';
    if (brush) {
      brush.style.left = `${Math.min(start, part) * width}px`;
      brush.style.width = `${Math.abs(part - start) * width}px`;
    }
  });
  plot.addEventListener('pointerleave', () => { if (!brush) { cursor.remove(); tip.remove(); } });
  if (!('brush' in chart.dataset)) return;
  plot.addEventListener('pointerdown', event => {
    if (event.button !== 0) return;
    start = place(event).part;
    brush = make('div', { class: 'brush' });
    plot.append(brush);
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener('pointerup', event => {
    if (!brush) return;
    const end = place(event).part;
    brush.remove();
    brush = null;
    if (Math.abs(end - start) < 0.01) return;
    const [from, step] = [Number(chart.dataset.from), Number(chart.dataset.step)];
    const moment = part => new Date(from + Math.round(part * (rows.length - 1)) * step);
    const text = (part, steps = 0) => new Date(moment(part).getTime() + steps * step).toISOString().replace('.000Z', 'Z');
    const [since, until] = [Math.min(start, end), Math.max(start, end)];
    const url = new URL('/events', location.href);
    const words = (new URL(location.href).searchParams.get('q') || '').split(' ').filter(word => word && !/^(since|until):/.test(word));
    url.searchParams.set('q', [...words, `since:${text(since)}`, ...(moment(until).getTime() + step < Date.now() ? [`until:${text(until, 1)}`] : [])].join(' '));
    location.assign(url);
  });
  plot.addEventListener('pointercancel', () => { brush?.remove(); brush = null; });
}
