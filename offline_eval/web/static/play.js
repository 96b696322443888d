"use strict";
// Asks, shows what comes back as it comes, and asks again without struck passages.
(() => {
  const find = (id) => document.getElementById(id);
  const struck = new Set();
  let question = "";
  let waiting = null;
  let sent = 0;
  let marked = false;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
  const words = (name) => name.replaceAll("_", " ");
  const problem = (text) => {
    find("problem").textContent = text;
    find("problem").hidden = text === "";
  };

  const post = (path, body, signal) => fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

  const toggle = (place) => {
    const item = find("passages").children[place];
    if (!item) return;
    const out = !struck.has(place);
    out ? struck.add(place) : struck.delete(place);
    item.classList.toggle("struck", out);
    item.querySelector("button").setAttribute("aria-pressed", String(out));
    ask(false);
  };

  const showPassages = (passages) => {
    find("passages").replaceChildren(...passages.map((passage, place) => {
      const item = element("li");
      const head = element("p", undefined, "soft passage-head");
      const strike = element("button", "Strike out", "plain");
      strike.type = "button";
      strike.setAttribute("aria-pressed", "false");
      strike.setAttribute("aria-label", `Strike out passage ${place + 1}`);
      strike.addEventListener("click", () => toggle(place));
      const name = element("bdi", passage.source || `passage ${place + 1}`);
      head.append(strike, name, element("span", "", "score"));
      const text = element("p", passage.text, "text");
      text.dir = "auto";
      text.dataset.passage = place;
      item.append(head, text);
      return item;
    }));
    const none = find("holder").options[0];
    find("holder").replaceChildren(none, ...passages.map((passage, place) => {
      const option = element("option", `${place + 1}: ${passage.text.slice(0, 60)}`);
      option.value = place;
      return option;
    }));
  };

  const showCitations = (found) => {
    const told = window.knowgate.showCitations(found, find("reply"));
    if (told) find("notes").textContent += ` · ${told}`;
  };

  // What is shown belongs together: nothing of an earlier decision or question stays.
  const clearDecision = () => {
    for (const id of ["decision", "signals", "notes", "reply", "saved"]) find(id).replaceChildren();
    for (const score of document.querySelectorAll("#passages .score")) score.textContent = "";
  };
  const clearQuestion = (next) => {
    if (next !== question) find("answer").value = "";
    question = next;
    struck.clear();
    marked = false;
    find("result").hidden = true;
    find("question").textContent = question;
    showPassages([]);
  };

  const showDecision = (found) => {
    find("decision").replaceChildren(
      element("span", words(found.route), `route route-${found.route}`),
      element("span", ` ${words(found.reason)}`, "soft"),
    );
    find("signals").replaceChildren(...found.signals.map((signal) => {
      const row = element("tr");
      const name = element("th", signal.name);
      name.scope = "row";
      const value = element("td", number(signal.value), "right");
      if (signal.threshold !== null) {
        const passes = signal.value >= signal.threshold;
        value.append(" ", element("span", passes ? "passes" : "below", passes ? "over" : "under"));
      }
      row.append(name, value, element("td", number(signal.threshold), "right"));
      return row;
    }));
    const notes = [...found.notes, `decided in ${found.milliseconds} ms`];
    find("notes").textContent = notes.join(" · ");
    [...find("passages").children].forEach((item, place) => {
      const score = found.scores[place];
      const kept = found.kept.includes(place);
      item.querySelector(".score").textContent =
        (score === undefined ? "" : ` score ${number(score)}`) + (kept ? " · in the prompt" : "");
    });
  };

  // Retrieved, decided, answered; seconds tell that a slow step is still under way.
  const STEPS = ["Retrieving passages", "Deciding", "Writing the reply"];
  let step = 0;
  let begun = 0;
  let clock = null;
  const showStep = () => {
    const seconds = Math.floor((performance.now() - begun) / 1000);
    find("state").textContent = `${STEPS[step]} …`;
    find("progress").value = step + 0.5;
    find("seconds").textContent = seconds ? `${seconds} s` : "";
  };
  const reach = (next) => {
    step = next;
    showStep();
  };
  const start = (anew) => {
    begun = performance.now();
    find("progress").hidden = false;
    find("result").setAttribute("aria-busy", "true");
    reach(anew ? 0 : 1);
    clearInterval(clock);
    clock = setInterval(showStep, 1000);
  };
  const stop = (text) => {
    clearInterval(clock);
    find("progress").hidden = true;
    find("seconds").textContent = "";
    find("result").removeAttribute("aria-busy");
    find("state").textContent = text;
  };

  const showMatches = async (signal) => {
    const answer = await post("/words", { question }, signal);
    if (!answer.ok) return;
    const found = await answer.json();
    if (signal.aborted) return;
    window.knowgate.showMatches(found);
    marked = true;
  };

  const take = (event, anew) => {
    if (event.event === "passages" && anew) {
      showPassages(event.passages);
      find("result").hidden = false;
      reach(1);
    }
    if (event.event === "decision") {
      showDecision(event);
      reach(2);
    }
    if (event.event === "text") find("reply").textContent += event.text;
    if (event.event === "citations") showCitations(event);
    if (event.event === "abstained") find("notes").textContent += " · the reply itself abstains";
    if (event.event === "error") problem(event.message);
  };

  const read = async (answer, anew, isMine) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let ended = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !ended) throw new Error("the reply was cut off.");
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (!isMine()) return;
      for (const event of lines.filter(Boolean).map((line) => JSON.parse(line))) {
        ended ||= event.event === "end" || event.event === "error";
        take(event, anew);
      }
    }
  };

  async function ask(anew) {
    waiting?.abort();
    waiting = new AbortController();
    const mine = ++sent;
    const { signal } = waiting;
    problem("");
    clearDecision();
    start(anew);
    try {
      const answer = await post("/ask", { question, struck: anew ? null : [...struck] }, signal);
      if (!answer.ok) throw new Error((await answer.json()).error ?? "not understood");
      await read(answer, anew, () => mine === sent);
      if (mine !== sent) return;
      stop(struck.size
        ? `Decided without ${struck.size} passage${struck.size > 1 ? "s" : ""}.` : "");
      if (!marked) await showMatches(signal);
    } catch (error) {
      if (mine !== sent || error.name === "AbortError") return;
      stop("");
      problem(error instanceof TypeError
        ? "The command that serves this page does not answer." : `Not done: ${error.message}`);
    }
  }

  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const next = find("search").value.trim();
    if (!next) return;
    clearQuestion(next);
    ask(true);
  });
  find("save").addEventListener("submit", async (event) => {
    event.preventDefault();
    const holder = find("holder").value;
    const body = { question, answer: find("answer").value.trim() };
    if (holder !== "") body.passage = Number(holder);
    try {
      const answer = await post("/save", body);
      const value = await answer.json();
      if (body.question !== question) return;
      find("saved").textContent = answer.ok ? "Saved." : `Not saved: ${value.error ?? "not understood"}`;
    } catch {
      find("saved").textContent = "Not saved: the command does not answer.";
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey
      || event.altKey || find("keys").open || !find("keys-on").checked) return;
    if (/^[1-9]$/.test(event.key)) toggle(Number(event.key) - 1);
  });
  for (const example of document.querySelectorAll(".example")) {
    example.addEventListener("click", () => {
      find("search").value = example.textContent;
      find("ask").requestSubmit();
    });
  }
  find("search").focus();
})();
