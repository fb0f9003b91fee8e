// replaces the live part of a page by each event of the server
"use strict";

const live = document.getElementById("live");
const state = document.getElementById("live-state");
const pause = document.getElementById("pause");

if (live && live.dataset.events) {
  let events = null;
  let fault = "";
  let waiting = null;
  let paused = false;

  const scrolled = () => [...live.querySelectorAll(".scroll")];

  // an update must not take the focus or the selection from the reader; a click into a table focuses its region, which gets the
  // focus back
  const isInUse = () => {
    const focused = document.activeElement;
    const selection = document.getSelection();
    return (live.contains(focused) && !focused.matches(".scroll"))
      || (!selection.isCollapsed && live.contains(selection.anchorNode));
  };

  const describe = () => {
    const isWaiting = waiting !== null && !paused;
    const text = fault || (isWaiting ? "Updates wait while you use this part of the page." : "");
    // a screen reader announces each change
    if (state.textContent !== text) state.textContent = text;
  };

  const show = () => {
    if (waiting !== null && !paused && !isInUse()) {
      const before = scrolled();
      // where a reader has scrolled a table to
      const places = before.map((part) => part.scrollLeft);
      const focused = before.indexOf(document.activeElement);
      live.innerHTML = waiting;
      waiting = null;
      const after = scrolled();
      after.forEach((part, number) => { part.scrollLeft = places[number] ?? 0; });
      after[focused]?.focus({ preventScroll: true });
    }
    describe();
  };

  const open = () => {
    events = new EventSource(live.dataset.events);
    events.onopen = () => { fault = ""; describe(); };
    events.onmessage = (event) => { waiting = event.data; show(); };
    events.onerror = () => {
      // the browser tries again, except after a refusal
      fault = events.readyState === EventSource.CLOSED
        ? "Updates have ended. Reload the page."
        : "No connection to the console. It tries again.";
      describe();
    };
  };

  // a browser opens only six connections to the console, for all of its pages
  const follow = () => {
    events?.close();
    events = null;
    if (!document.hidden) open();
  };

  document.addEventListener("selectionchange", show);
  document.addEventListener("visibilitychange", follow);
  live.addEventListener("focusout", () => setTimeout(show));
  follow();

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue updates" : "Pause updates";
    show();
  });
}
