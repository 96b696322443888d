"use strict";
(() => {
  const settings = JSON.parse(document.body.dataset.settings);
  const words = settings.words;
  const byId = (id) => document.getElementById(id);
  const criteria = new Map(settings.criteria.map((criterion) => [criterion.name, criterion]));
  // Longer texts are shown in part at first: the page stays quick.
  const longest = 20000;
  const wait = 20000;
  let statuses = [];
  let undoable = 0;
  let position = null;
  let item = null;
  let busy = false;
  let queue = Promise.resolve();

  async function ask(path, body) {
    const options = { cache: "no-store", signal: AbortSignal.timeout(wait) };
    if (body !== undefined) {
      options.method = "POST";
      options.headers = { "Content-Type": "application/json" };
      options.body = JSON.stringify(body);
    }
    let response;
    let value;
    try {
      response = await fetch(path, options);
      value = await response.json();
    } catch {
      throw new Error(
        "The command that serves this page does not answer. What was confirmed before is stored; " +
          "the last step may not be. Start the command again and open the address that it prints.");
    }
    if (!response.ok) {
      throw new Error(`Not done: ${value.error}`);
    }
    return value;
  }

  // One step after the other, and none before the last one is confirmed.
  function perform(action) {
    if (busy) {
      return;
    }
    setBusy(true);
    later(action).finally(() => setBusy(false));
  }

  function setBusy(value) {
    busy = value;
    byId("work").ariaBusy = String(value);
  }

  function later(action) {
    queue = queue.then(action).then(() => complain(""), (error) => complain(error.message));
    return queue;
  }

  function complain(text) {
    const alert = byId("alert");
    alert.hidden = text === "";
    if (alert.textContent !== text) {
      alert.textContent = text;
    }
  }

  function take(state) {
    statuses = state.statuses;
    undoable = state.undoable;
    const done = statuses.filter((status) => status === "done").length;
    const skipped = statuses.filter((status) => status === "skipped").length;
    byId("bar").max = Math.max(1, statuses.length);
    byId("bar").value = done + skipped;
    byId("count").textContent =
      `${done} of ${statuses.length} ${words.done}` +
      (skipped ? `, ${skipped} skipped` : "");
    byId("undo").disabled = undoable === 0;
    byId("finished-undo").disabled = undoable === 0;
    byId("open").disabled = !statuses.includes("open");
  }

  function announce(text) {
    byId("live").textContent = text;
  }

  function noteChanged() {
    return item !== null && byId("note").value.trim() !== item.note;
  }

  // Nothing where it was not changed here: another tab may have stored one meanwhile.
  function changedNote() {
    return noteChanged() ? byId("note").value.trim() : null;
  }

  async function storeNote() {
    if (noteChanged()) {
      const note = byId("note").value.trim();
      take(await ask(`replies/${position}/note`, { note }));
      item.note = note;
    }
  }

  async function show(next) {
    await storeNote();
    const loaded = await ask(`replies/${next}`);
    const again = next === position && !byId("work").hidden;
    position = next;
    item = loaded;
    byId("finished").hidden = true;
    byId("work").hidden = false;
    const said = { open: "", done: `, ${words.done}`, skipped: ", skipped" };
    const name = words.item[0].toUpperCase() + words.item.slice(1);
    byId("heading").textContent = `${name} ${position + 1} of ${statuses.length}${said[item.status]}`;
    byId("back").disabled = position === 0;
    byId("forward").disabled = position === statuses.length - 1;
    byId("note").value = item.note;
    if (!again) {
      showTexts();
      await showContext();
    }
    showOpinions();
    showCriteria();
    const active = document.querySelector("fieldset.active");
    if (again && active) {
      active.focus();
      active.scrollIntoView({ block: "nearest" });
    } else {
      byId("heading").focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  }

  function showTexts() {
    fill(byId("question"), item.question, "The question is empty.");
    fill(byId("expected"), item.expected, "None is known.");
    byId("facts").hidden = !item.facts;
    byId("facts").textContent = item.facts ?? "";
    byId("probable").hidden = !item.probable;
    const cut = item.response.length > longest;
    fill(byId("response"), cut ? item.response.slice(0, longest) + "…" : item.response, "The reply is empty.");
    byId("response").scrollTop = 0;
    byId("show-all").hidden = !cut;
    byId("show-all").textContent = `Show all ${item.response.length.toLocaleString("en")} characters`;
    byId("citation").hidden = item.citation === "";
    byId("citation-text").textContent = item.citation;
    const some = item.context.passages > 0;
    byId("context").hidden = !some;
    byId("context").open = Boolean(settings.reviews);
    byId("context-words").textContent = item.context.words;
    byId("passages").replaceChildren();
    byId("no-context").hidden = some;
    byId("no-context").textContent = item.context.words;
  }

  function fill(element, text, otherwise) {
    element.textContent = text === "" ? otherwise : text;
    element.classList.toggle("missing", text === "");
  }

  function make(name, className, text) {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  function showOpinions() {
    byId("opinions").hidden = !settings.settles;
    byId("opinion-list").replaceChildren(...(item.opinions || []).map((opinion) => {
      const line = document.createElement("li");
      const said = Object.entries(opinion.outcomes).map(([name, outcome]) => `${name}: ${outcome}`);
      const who = make("p", "", `${opinion.annotator} — ${said.join(", ")}`);
      who.dir = "auto";
      line.append(who);
      if (opinion.note) {
        const note = make("p", "text", opinion.note);
        note.dir = "auto";
        line.append(note);
      }
      return line;
    }));
  }

  function pendingStep() {
    return item.steps.find((step) => step.outcome === null) || null;
  }

  function showCriteria() {
    const pending = pendingStep();
    byId("criteria").replaceChildren(...item.steps.map((step) => {
      const criterion = criteria.get(step.criterion);
      const field = document.createElement("fieldset");
      field.className = step === pending ? "active" : "";
      field.tabIndex = -1;
      const legend = make("legend", "", criterion.question);
      legend.dir = "auto";
      field.append(legend, ...criterion.outcomes.map((answer) => answerButton(step, answer)));
      return field;
    }));
  }

  function answerButton(step, answer) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "answer";
    button.setAttribute("aria-pressed", String(step.outcome === answer.outcome));
    button.setAttribute("aria-keyshortcuts", answer.key);
    const key = make("kbd", "", answer.key);
    key.setAttribute("aria-hidden", "true");
    button.append(key, make("span", "name", answer.text));
    if (answer.meaning) {
      button.append(" ", make("span", "meaning", answer.meaning));
    }
    button.addEventListener("click", () => perform(() => label(step.criterion, answer.outcome)));
    return button;
  }

  async function label(criterion, outcome) {
    const before = item.status;
    const note = changedNote();
    take(await ask(`replies/${position}/label`, { criterion, outcome, note }));
    item.note = note ?? item.note;
    announce(`Stored ${criterion}: ${outcome}.`);
    if (statuses[position] === "open" || before === "done") {
      await show(position);
    } else {
      await goOn();
    }
  }

  async function skip() {
    const note = changedNote();
    take(await ask(`replies/${position}/skip`, { note }));
    item.note = note ?? item.note;
    announce("Skipped.");
    await goOn();
  }

  async function undo() {
    const state = await ask("undo", {});
    take(state);
    if (state.position === null) {
      announce("There is nothing to undo.");
      return;
    }
    // What is in the note field belongs to what was taken back.
    item = null;
    position = null;
    await show(state.position);
    announce("Taken back.");
  }

  // To the next open reply after this one, or the first one before it; else all is done.
  async function goOn() {
    const start = position === null ? 0 : position + 1;
    let next = statuses.indexOf("open", start);
    if (next < 0) {
      next = statuses.indexOf("open");
    }
    if (next < 0) {
      await finish();
    } else {
      await show(next);
    }
  }

  async function finish() {
    await storeNote();
    const skipped = statuses.filter((status) => status === "skipped").length;
    const done = statuses.length - skipped;
    byId("work").hidden = true;
    byId("finished").hidden = false;
    const none = settings.settles ? "There is nothing to settle" : "There is nothing to label";
    byId("finished-heading").textContent = statuses.length ? "All done" : none;
    byId("finished-words").textContent = statuses.length
      ? `${done} of ${statuses.length} ${words.items} ${words.done}` + (skipped ? `, ${skipped} skipped.` : ".")
      : "No reply has labels that differ.";
    byId("go-skipped").hidden = skipped === 0;
    byId("go-first").hidden = statuses.length === 0;
    byId("finished-undo").hidden = statuses.length === 0;
    byId("finished-heading").focus();
  }

  function step(by) {
    const next = position + by;
    if (next >= 0 && next < statuses.length) {
      perform(() => show(next));
    }
  }

  async function showContext() {
    const shown = position;
    const list = byId("passages");
    if (!byId("context").open || list.childElementCount > 0) {
      return;
    }
    const { passages } = await ask(`replies/${shown}/context`);
    if (shown !== position) {
      return;
    }
    list.replaceChildren(...passages.map(passageLine));
    const scrolls = list.scrollHeight > list.clientHeight;
    list.tabIndex = scrolls ? 0 : -1;
  }

  // A reply's passages are texts; a case's have a name, and one may be marked.
  function passageLine(passage, number) {
    const line = document.createElement("li");
    const body = document.createElement("div");
    const text = make("div", "text", "");
    text.dir = "auto";
    fill(text, passage.text ?? passage, "The passage is empty.");
    if (passage.name !== undefined) {
      const name = make("p", "soft", passage.name);
      name.dir = "auto";
      body.append(name);
    }
    if (passage.probable) {
      line.className = "likely";
      body.append(make("p", "probable", "Probably answers the question."));
    }
    body.append(text);
    line.append(make("span", "", `${number + 1}.`), body);
    return line;
  }

  // The framed question first; then whichever question has such a key.
  function answerFor(key) {
    const pending = pendingStep();
    const others = [...item.steps].reverse().filter((step) => step !== pending);
    for (const step of pending ? [pending, ...others] : others) {
      const numbered = step === (pending || others[0]);
      const found = criteria.get(step.criterion).outcomes.find(
        (answer) => answer.key === key && (numbered || !/\d/.test(key)) || numbered && answer.number === key);
      if (found) {
        return [step.criterion, found.outcome];
      }
    }
    return null;
  }

  const acts = {
    s: () => perform(skip),
    [settings.undo]: () => perform(undo),
    b: () => step(-1),
    arrowleft: () => step(-1),
    f: () => step(1),
    arrowright: () => step(1),
    o: () => perform(goOn),
    c: () => { byId("context").open = !byId("context").open; },
    e: () => byId("note").focus(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || byId("help").open) {
      return;
    }
    if (event.target === byId("note")) {
      if (event.key === "Escape") {
        byId("heading").focus();
      }
      return;
    }
    const key = event.key.toLowerCase();
    if (!byId("keys-on").checked) {
      return;
    }
    if (key === "?") {
      byId("help").showModal();
    } else if (byId("work").hidden) {
      if (key !== settings.undo || byId("finished").hidden) {
        return;
      }
      perform(undo);
    } else {
      const answer = answerFor(key);
      if (answer) {
        perform(() => label(...answer));
      } else if (Object.hasOwn(acts, key)) {
        acts[key]();
      } else {
        return;
      }
    }
    event.preventDefault();
  });

  byId("back").addEventListener("click", acts.b);
  byId("forward").addEventListener("click", acts.f);
  byId("skip").addEventListener("click", acts.s);
  byId("undo").addEventListener("click", acts[settings.undo]);
  byId("finished-undo").addEventListener("click", acts[settings.undo]);
  byId("open").addEventListener("click", acts.o);
  byId("go-first").addEventListener("click", () => perform(() => show(0)));
  byId("go-skipped").addEventListener("click", () => perform(() => show(statuses.indexOf("skipped"))));
  byId("context").addEventListener("toggle", () => { later(showContext); });
  byId("note").addEventListener("change", () => { later(storeNote); });
  byId("criteria").addEventListener("submit", (event) => event.preventDefault());
  byId("show-help").addEventListener("click", () => byId("help").showModal());
  byId("close-help").addEventListener("click", () => byId("help").close());
  byId("show-all").addEventListener("click", () => {
    byId("response").textContent = item.response;
    byId("show-all").hidden = true;
    byId("response").focus();
  });
  window.addEventListener("beforeunload", (event) => {
    if (noteChanged()) {
      event.preventDefault();
    }
  });

  perform(async () => {
    take(await ask("state"));
    await goOn();
  });
})();
