// replaces the live part of a page by each event of the server
"use strict";

const live = document.getElementById("live");
const state = document.getElementById("live-state");
const pause = document.getElementById("pause");

if (live && live.dataset.events) {
  let waiting = null;
  let paused = false;

  // an update must not take the focus or the selection from the reader
  const isInUse = () => live.contains(document.activeElement) && document.activeElement !== document.body
    || (!document.getSelection().isCollapsed && live.contains(document.getSelection().anchorNode));

  const show = () => {
    if (waiting === null || paused || isInUse()) return;
    // where a reader has scrolled a table to
    const places = [...live.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    live.innerHTML = waiting;
    live.querySelectorAll(".scroll").forEach((part, number) => { part.scrollLeft = places[number] ?? 0; });
    waiting = null;
  };

  const events = new EventSource(live.dataset.events);
  events.onopen = () => { state.textContent = ""; };
  events.onmessage = (event) => { waiting = event.data; show(); };
  events.onerror = () => { state.textContent = "No connection to the console. It tries again."; };
  document.addEventListener("selectionchange", show);
  live.addEventListener("focusout", () => setTimeout(show));

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue updates" : "Pause updates";
    show();
  });
}
