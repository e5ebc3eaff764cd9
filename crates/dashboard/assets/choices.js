// A list of which one is chosen, and the fields that belong to it: those of the others are put away and not sent. And the
// fields of a source's verification, which stand in the page once and are put where a form is opened.
import { $, $$, whenRendered } from './dom.js';

function choose(select) {
  const choice = select.closest('.choice');
  for (const group of $$('[data-for]', choice)) {
    const belongs = group.dataset.for.split(' ').includes(select.value);
    group.hidden = !belongs;
    group.disabled = !belongs;
  }
}
document.addEventListener('change', event => { if (event.target.matches?.('[data-chooses]')) choose(event.target); });

/** The fields of a new source, or of one that is there with what it says. */
function fill(place) {
  const choice = $('#ways')?.content.firstElementChild.cloneNode(true);
  if (!choice || place.childElementCount) return;
  const said = place.dataset.ways ? JSON.parse(place.dataset.ways) : null;
  place.append(choice);
  if (said) {
    $$('[data-new]', place).forEach(each => each.remove());
    for (const [name, value] of Object.entries(said)) {
      $$(`[name="verification.${CSS.escape(name)}"]`, place).forEach(field => { field.value = Array.isArray(value) ? value.join(', ') : value ?? ''; });
    }
    const kept = $(`[data-for="${CSS.escape(said.type)}"] [data-kept]`, place);
    if (kept && said.secret_count) kept.textContent = said.secret_count === 1 ? 'One is kept, and replaced by what is typed here. ' : `${said.secret_count} are kept, and replaced by what is typed here. `;
  }
  choose($('[data-chooses]', place));
}
const opened = root => $$('details[open] [data-ways]', root).forEach(fill);
document.addEventListener('toggle', event => { if (event.target.open) opened(event.target.parentElement); }, true);
whenRendered(root => {
  opened(root);
  $$('[data-chooses]', root).forEach(choose);
});
