// keys, ages, and the live part of a page, which each event of the server replaces
"use strict";

const live = document.getElementById("live");
const state = document.getElementById("live-state");
const pause = document.getElementById("pause");

// ---------- keys ----------

const isTyping = (element) => element?.matches("input:not([type=checkbox]):not([type=radio]), textarea, select") ?? false;
const find = (name, key) => [...document.querySelectorAll(`[data-${name}]`)].find((one) => one.dataset[name] === key);
const rows = () => [...document.querySelectorAll("[data-row]")];
let selected = null;
let isAfterG = false;

// after an action, a second press of its key must not act on the next item, which nobody has read yet
const QUIET_MS = 1000;
let quietUntil = 0;

// the buttons are gray for as long as their keys wait
const lock = () => {
  quietUntil = performance.now() + QUIET_MS;
  const buttons = [...document.querySelectorAll("form[method=post] :is(button[data-key], button[data-enter])")];
  buttons.forEach((button) => button.setAttribute("aria-disabled", "true"));
  setTimeout(() => {
    if (performance.now() >= quietUntil) buttons.forEach((button) => button.removeAttribute("aria-disabled"));
  }, QUIET_MS);
};
if (document.querySelector("[data-after-action]")) lock();

// a form is sent once, and not by a gray button; a page that the browser shows again from its memory can be sent again
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  const isEarly = performance.now() < quietUntil && event.submitter?.matches("[data-key], [data-enter]");
  if (form.dataset.sent || isEarly) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "true";
  const field = form.querySelector("[data-draft]");
  if (field) sessionStorage.setItem("sent", draftName(field));
  // the answer has been stopped
  setTimeout(() => form.removeAttribute("data-sent"), 10_000);
});
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  document.querySelectorAll("[data-sent]").forEach((form) => form.removeAttribute("data-sent"));
  lock();
});

// what is missing, below the reason
const say = (text) => {
  const place = document.getElementById("say");
  if (place && place.textContent !== text) place.textContent = text;
};

// a reason that is written and not sent is kept for its item, until it is sent, the login ends, or the tab is closed
const drafts = `draft:${document.body.dataset.login ?? ""}:`;
const draftName = (field) => drafts + field.dataset.draft;
// those of another login may be of another daemon; a page without a login has none
for (const name of Object.keys(sessionStorage)) {
  const isOwn = document.body.dataset.login && name.startsWith(drafts);
  if (name.startsWith("draft:") && !isOwn) sessionStorage.removeItem(name);
}
const note = document.querySelector("[data-after-action]");
const sent = sessionStorage.getItem("sent");
sessionStorage.removeItem("sent");
if (sent && note?.getAttribute("role") === "status") sessionStorage.removeItem(sent);
for (const field of document.querySelectorAll("[data-draft]")) {
  const [name, kept] = [draftName(field), sessionStorage.getItem(draftName(field))];
  if (kept && !field.value) {
    field.value = kept;
    say("Restored draft. It is not sent yet.");
  }
  field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
}

// with the cursor after the text, which is to be continued
const focusEnd = (field) => {
  field.focus();
  field.setSelectionRange?.(field.value.length, field.value.length);
};

// after an action, the reader continues at its outcome, or in the field that it asks for
const asked = document.querySelector("[autofocus]");
if (note) note.tabIndex = -1;
if (asked) focusEnd(asked);
else note?.focus({ preventScroll: true });

const nameOf = (row) => row.dataset.row || row.getAttribute("href");
const mark = (row) => {
  rows().forEach((other) => other.classList.toggle("cur", other === row));
  selected = row ? nameOf(row) : null;
};

// the row has the focus, so that Tab continues from it
const select = (row) => {
  mark(row);
  row?.focus({ preventScroll: true });
  row?.scrollIntoView({ block: "nearest" });
};

const current = () => rows().find((row) => row.classList.contains("cur"));

const move = (step) => {
  const all = rows();
  const at = all.indexOf(current());
  select(all[Math.min(Math.max(at + step, 0), all.length - 1)]);
};

// the server counts bytes, and the field characters
const checkSize = (field) => {
  const [size, most] = [new TextEncoder().encode(field.value.trim()).length, Number(field.dataset.maxBytes)];
  const fault = size > most ? `${size} of ${most} bytes: shorten the text.` : "";
  field.setCustomValidity(fault);
  say(fault);
};
document.addEventListener("input", (event) => {
  if (event.target.dataset?.maxBytes) checkSize(event.target);
});

const actionsOf = (form) => [...form.querySelectorAll("button[data-key]")]
  .map((one) => `${one.dataset.key} (${(one.firstElementChild ?? one).textContent.trim()})`).join(", ");

const findEmpty = (form) => [...form.elements].find((field) => field.required && !field.value.trim());

// a key that leads to a field opens the part with the field; an action key without a reason leads to the reason
const press = (element, isRepeated) => {
  const own = element.dataset.focus && document.getElementById(element.dataset.focus);
  if (own) {
    const folded = element.closest("details:not([open])");
    if (folded) folded.open = true;
    return focusEnd(own);
  }
  const form = element.type === "submit" ? element.form : null;
  if (element.disabled || (form && (isRepeated || performance.now() < quietUntil))) return undefined;
  const empty = form && findEmpty(form);
  if (empty) {
    const name = empty.labels?.[0]?.firstChild?.textContent.trim() || "field";
    say(`${name} is empty. Write it, then press Esc and ${element.dataset.key ?? "Enter"}.`);
    return empty.focus();
  }
  return element.click();
};

const keysAreOn = () => localStorage.getItem("single-keys") !== "off";
const toggle = document.getElementById("single-keys");
if (toggle) {
  toggle.checked = keysAreOn();
  toggle.addEventListener("change", () => localStorage.setItem("single-keys", toggle.checked ? "on" : "off"));
}

const handleKey = (event) => {
  const target = event.target;
  const hasOneAction = target.form && !target.form.querySelector("[data-key]");
  if (event.key === "Enter" && event.ctrlKey && hasOneAction) return target.form.requestSubmit();
  if (event.key === "Enter" && event.ctrlKey && target.id === "reason") {
    return say(`Ctrl and Enter decide nothing here. Press Esc, then one of: ${actionsOf(target.form)}.`);
  }
  // Enter in a field with a button of its own presses it
  const own = event.key === "Enter" && !event.isComposing && target.id && find("enter", target.id);
  if (own) {
    event.preventDefault();
    return press(own, event.repeat);
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !keysAreOn()) return undefined;
  if (isTyping(target)) {
    if (event.key === "Escape") target.blur();
    return undefined;
  }
  const wasAfterG = isAfterG;
  isAfterG = event.key === "g";
  const wanted = wasAfterG ? find("go", event.key) : find("key", event.key);
  if (wanted) {
    event.preventDefault();
    return press(wanted, event.repeat);
  }
  if (event.key === "j" || event.key === "k") return move(event.key === "j" ? 1 : -1);
  const onPage = target === document.body || target.id === "main" || target === note;
  if (event.key === "Enter" && onPage) return current()?.click();
  const place = event.key === "/" ? document.getElementById("find") : null;
  if (place) {
    event.preventDefault();
    focusEnd(place);
  }
  return undefined;
};
document.addEventListener("keydown", handleKey);

// the list of keys has those of the elements on the page
const NAMES = { ArrowLeft: "←", ArrowRight: "→" };
document.getElementById("keys")?.addEventListener("beforetoggle", () => {
  const shown = [...document.querySelectorAll("[data-key]")].filter((one) => !one.hidden && one.dataset.key !== "?");
  const list = document.getElementById("page-keys");
  list.replaceChildren(...shown.flatMap((one) => {
    const [key, effect] = [document.createElement("dt"), document.createElement("dd")];
    const name = document.createElement("kbd");
    name.textContent = NAMES[one.dataset.key] ?? one.dataset.key;
    key.append(name);
    const copy = one.cloneNode(true);
    copy.querySelectorAll("kbd").forEach((part) => part.remove());
    effect.textContent = one.dataset.name ?? copy.textContent.trim();
    return [key, effect];
  }));
  list.parentElement.hidden = shown.length === 0;
});

// ---------- decisions about several ----------

const all = document.querySelector("[data-check-all]");
const boxes = [...document.querySelectorAll("input[type=checkbox][form=decide]")];
if (all && boxes.length > 1) {
  const box = all.querySelector("input");
  const showAll = () => {
    const checked = boxes.filter((one) => one.checked).length;
    box.checked = checked === boxes.length;
    box.indeterminate = checked > 0 && checked < boxes.length;
  };
  all.hidden = false;
  showAll();
  box.addEventListener("change", () => boxes.forEach((one) => { one.checked = box.checked; }));
  boxes.forEach((one) => one.addEventListener("change", showAll));
}

// ---------- copies ----------

for (const button of document.querySelectorAll("[data-copy]")) {
  const text = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    // a browser may have no clipboard, or refuse it
    const outcome = await (navigator.clipboard?.writeText(text.textContent) ?? Promise.reject())
      .then(() => "copied", () => "selected: copy it now");
    if (outcome !== "copied") document.getSelection().selectAllChildren(text);
    button.nextElementSibling.textContent = outcome;
    setTimeout(() => { button.nextElementSibling.textContent = ""; }, 3_000);
  });
}

// ---------- ages ----------

// as `format_span` of the server
const span = (seconds) => {
  const unit = [[86400, "days"], [3600, "hours"], [60, "minutes"]].find(([size]) => seconds >= 2 * size);
  return unit ? `${Math.floor(seconds / unit[0])} ${unit[1]}` : `${seconds} ${seconds === 1 ? "second" : "seconds"}`;
};
setInterval(() => {
  for (const time of document.querySelectorAll("time[data-age]")) {
    time.textContent = span(Math.abs(Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000)));
  }
}, 15_000);

// ---------- live ----------

if (live && live.dataset.events) {
  let events = null;
  let fault = "";
  let waiting = null;
  // the daemon does not answer the console: the page shows what was read before
  let daemonFault = "";
  const alert = document.createElement("div");
  alert.id = "live-fault";
  live.before(alert);
  let paused = false;

  // by name: an update may add a table or take one away
  const scrolled = () => new Map([...live.querySelectorAll(".scroll")].map((part) => [part.ariaLabel, part]));

  // an update must not take the focus, the selection or an open part from the reader; a click into a table focuses its region,
  // which gets the focus back
  const isInUse = () => {
    const focused = document.activeElement;
    const selection = document.getSelection();
    return (live.contains(focused) && !focused.matches(".scroll, [data-row].cur"))
      || (!selection.isCollapsed && live.contains(selection.anchorNode))
      || live.querySelector("details[open]") !== null;
  };

  // also where the foot of the page is out of sight
  const top = document.getElementById("live-top");
  const showTop = (isLive) => {
    if (!top || top.hidden === isLive) return;
    top.hidden = isLive;
    const since = document.createElement("time");
    since.dateTime = new Date().toISOString();
    since.dataset.age = "";
    since.textContent = span(0);
    top.replaceChildren("Not live for ", since);
  };

  const describe = () => {
    showTop(!fault && !daemonFault);
    const isWaiting = waiting !== null && !paused;
    const quiet = paused ? "Paused" : "Live";
    const text = fault || daemonFault || (isWaiting ? "Updates wait while you use this part of the page." : quiet);
    state.classList.toggle("off", text !== "Live");
    // a screen reader announces each change
    if (state.textContent !== text) state.textContent = text;
  };

  const show = () => {
    if (waiting !== null && !paused && !isInUse()) {
      // where a reader has scrolled a table to, and which one has the focus
      const places = new Map([...scrolled()].map(([name, part]) => [name, part.scrollLeft]));
      const focused = live.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
      const at = rows().indexOf(current());
      const isOnRow = at >= 0 && current() === document.activeElement;
      live.innerHTML = waiting;
      waiting = null;
      const after = scrolled();
      after.forEach((part, name) => { part.scrollLeft = places.get(name) ?? 0; });
      after.get(focused)?.focus({ preventScroll: true });
      // a row that has gone leaves the selection to the one in its place
      const all = rows();
      if (selected !== null) mark(all.find((row) => nameOf(row) === selected) ?? all[Math.min(at, all.length - 1)]);
      if (isOnRow) current()?.focus({ preventScroll: true });
    }
    describe();
  };

  // another person has decided the item: nothing can be sent any longer, and the entered reason stays readable
  const close = () => {
    if (!live.querySelector("[data-decided]")) return;
    const form = document.getElementById("decide");
    form?.classList.add("decided");
    form?.querySelectorAll("button").forEach((button) => { button.disabled = true; });
  };

  const setFault = (markup) => {
    alert.innerHTML = markup;
    const since = new Date().toISOString().slice(11, 19);
    daemonFault = markup && (daemonFault || `Not updated since ${since} UTC: the daemon does not answer.`);
    describe();
  };

  const showCounts = (counts) => {
    for (const [name, number] of Object.entries(counts)) {
      const count = document.querySelector(`[data-count="${name}"]`);
      if (!count) continue;
      count.hidden = number === 0;
      count.firstElementChild.textContent = number;
    }
  };

  const open = () => {
    events = new EventSource(live.dataset.events);
    events.onopen = () => { fault = ""; describe(); };
    events.onmessage = (event) => { waiting = event.data; setFault(""); show(); close(); };
    events.addEventListener("fault", (event) => setFault(event.data));
    events.addEventListener("counts", (event) => { setFault(""); showCounts(JSON.parse(event.data)); });
    events.onerror = () => {
      // the browser tries again, except after a refusal
      const since = new Date().toISOString().slice(11, 19);
      fault = events.readyState === EventSource.CLOSED
        ? "Updates have ended. Reload the page."
        : fault || `Disconnected since ${since} UTC. It tries again.`;
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
  live.addEventListener("toggle", show, true);
  follow();

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue updates" : "Pause updates";
    show();
  });
}
