// Starts the page. While a run is watched it loads itself again, and keeps filters and scroll position.

const RELOADS_END_AFTER = 15 * 60; // seconds without a new report: whoever wrote it is gone

/** What the page remembers while its tab is open; where a browser forbids that, nothing. */
function openStore() {
  const key = `rloo-verify:${location.pathname}`;
  let values = {};
  try { values = JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { /* forbidden: start afresh */ }
  const save = () => { try { sessionStorage.setItem(key, JSON.stringify(values)); } catch { /* forbidden */ } };
  return { get: (name) => values[name], set: (name, value) => { values[name] = value; save(); } };
}

function startWatching(data, store) {
  if (!data.watch) return;
  const age = () => Date.now() / 1000 - data.written;
  scrollTo(0, store.get("scroll") ?? 0);
  addEventListener("pagehide", () => store.set("scroll", scrollY));
  if (age() > RELOADS_END_AFTER) document.getElementById("watch").textContent = "This page is no longer being written.";
  else setTimeout(() => location.reload(), data.watch * 1000);
}

{
  const data = JSON.parse(document.getElementById("data").textContent);
  const store = openStore();
  startCharts(data.charts);
  startBrowser(data.browser, store);
  startWatching(data, store);
}
