// Before the first paint, so that nothing flashes: which theme was chosen, if any.
(() => {
  try {
    const chosen = localStorage.getItem('posthaste.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch { /* no storage: the system's theme */ }
})();
