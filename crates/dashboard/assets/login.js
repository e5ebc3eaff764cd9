// Signing in: the key goes once, as JSON; the session comes back as a cookie that no script can read.
const problem = document.getElementById('login-problem');
for (const form of document.querySelectorAll('[data-sign-in]')) {
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const button = form.querySelector('button');
    // A link opens once: pressed twice, it would be said to be used up.
    if (button.getAttribute('aria-busy') === 'true') return;
    button.setAttribute('aria-busy', 'true');
    const body = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, name === 'password' ? value : value.trim()]));
    let said = 'The server was not reached.';
    try {
      const answer = await fetch(form.dataset.signIn || '/ui/sign-in', { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json' }, credentials: 'same-origin', body: JSON.stringify(body) });
      if (answer.ok) {
        const next = form.dataset.next || '/';
        // A path of ours and nothing else.
        const safe = next.startsWith('/') && !next.startsWith('//') && !next.includes('\\') ? next : '/';
        return location.assign(safe);
      }
      const told = await answer.json().catch(() => null);
      said = told?.detail || told?.title || `It was refused (${answer.status}).`;
    } catch { /* said above */ }
    button.removeAttribute('aria-busy');
    problem.textContent = said;
    problem.hidden = false;
    form.querySelector('input').focus();
  });
}
