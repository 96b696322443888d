"use strict";
const whatIf = (() => {
  const CONTEXT_RIGHT = 1, MEMORY_RIGHT = 2, EMPTY = 4, MISSED = 8, CONFLICT = 16, COMPARED = 32;
  const CONTEXT_WRONG = 64, CONTEXT_ABSTAINS = 128, MEMORY_WRONG = 256, MEMORY_ABSTAINS = 512;
  const ABSTAIN = 0, FOLLOW = 1, ANSWER = 2;
  const SHOWN = 20, POINTS = 200, QUIET = 700;

  // The route of a case, as the guard decides it; null is the threshold that nothing passes.
  function route(data, i, relevance, confidence) {
    const { rule } = data;
    const follows = rule.follow && relevance !== null;
    const answers = rule.answer && confidence !== null;
    const bits = data.bits[i];
    const measured = bits & EMPTY ? 0 : data.relevance[i];
    const memory = data.confidence ? data.confidence[i] : null;
    if (!follows && !answers) return ABSTAIN;
    if (follows && measured === null) return ABSTAIN;
    const sure = confidence !== null && memory !== null && memory >= confidence;
    if (follows && !(bits & EMPTY) && measured >= relevance) {
      if (rule.conflict === null) return FOLLOW;
      if (rule.conflict !== "passages" && memory === null) return ABSTAIN;
      if (rule.conflict === "memory" && !sure) return FOLLOW;
      if (!(bits & COMPARED)) return ABSTAIN;
      return bits & CONFLICT && rule.abstains ? ABSTAIN : FOLLOW;
    }
    return answers && sure ? ANSWER : ABSTAIN;
  }

  // What the user gets by a route: of the stored replies, or as far as signals tell.
  function replied(data, bits, way) {
    if (!way) return "abstained";
    const follows = way === FOLLOW;
    if (!data.replies) return bits & (follows ? CONTEXT_RIGHT : MEMORY_RIGHT) ? "right" : "wrong";
    if (bits & (follows ? CONTEXT_WRONG : MEMORY_WRONG)) return "wrong";
    return bits & (follows ? CONTEXT_ABSTAINS : MEMORY_ABSTAINS) ? "abstained" : "right";
  }

  // Each measure as [part, whole].
  function measure(data, relevance, confidence) {
    let every = 0, passed = 0, wrong = 0;
    const there = { all: 0, passed: 0, abstained: 0, wrong: 0 }, missing = { ...there };
    for (let i = 0; i < data.bits.length; i++) {
      const way = route(data, i, relevance, confidence), bits = data.bits[i];
      const weight = data.weights ? data.weights[i] : 1;
      every += weight;
      if (way) passed += weight;
      if (bits & MISSED) continue;
      const reply = replied(data, bits, way);
      const side = bits & (CONTEXT_RIGHT | MEMORY_RIGHT) ? there : missing;
      side.all += weight;
      if (way) side.passed += weight;
      if (reply === "abstained") side.abstained += weight;
      if (reply === "wrong") {
        side.wrong += weight;
        wrong += weight;
      }
    }
    return {
      leak: [missing.passed, missing.all], false_abstention: [there.abstained, there.all],
      coverage: [passed, every], wrong: [wrong, passed],
      wrong_missing: [missing.wrong, missing.all], wrong_there: [there.wrong, there.all],
    };
  }

  const value = ([part, whole]) => (whole ? part / whole : null);

  // Expected cost of a question; null where it is undefined.
  function cost(found, wrong, abstention, unanswerable) {
    if (unanswerable === null) {
      const whole = found.coverage[1];
      return whole ? (wrong * found.wrong[0] + abstention * found.false_abstention[0]) / whole : null;
    }
    const missing = value(found.wrong_missing), there = value(found.wrong_there);
    const needless = value(found.false_abstention);
    if (missing === null || there === null || needless === null) return null;
    const answerable = 1 - unanswerable;
    return unanswerable * missing * wrong + answerable * (there * wrong + needless * abstention);
  }

  // With the same rounding as the report: a tie goes to the even digit.
  function fixed(number, digits) {
    const scale = 10 ** digits, scaled = number * scale;
    const tie = Number.isInteger(number * 2 ** 20) && Math.abs(scaled % 1) === 0.5;
    return (tie ? (2 * Math.round(scaled / 2)) / scale : number).toFixed(digits);
  }
  function percent(share) {
    if (share === null) return "–";
    const shown = 100 * share;
    if ((shown > 0 && shown < 1) || (shown > 99 && shown < 100)) {
      return `${fixed(Math.min(99.9, Math.max(0.1, Number(fixed(shown, 1)))), 1)}\u00a0%`;
    }
    return `${fixed(shown, 0)}\u00a0%`;
  }
  function thresholdText(threshold) {
    if (threshold === null) return "nothing passes";
    const size = Math.abs(threshold);
    return fixed(threshold, (size >= 0.0001 && size <= 0.9999) || size >= 1 ? 4 : 7);
  }
  const count = (sum) => (Number.isInteger(sum) ? String(sum) : fixed(sum, 1));
  const shareText = (found) => `${percent(value(found))} (${count(found[0])} of ${count(found[1])})`;

  function show(box) {
    const at = (id) => document.getElementById(`${box.id}-${id}`);
    const data = JSON.parse(at("data").textContent), signals = Object.keys(data.stops);
    if (!signals.length) return;
    const here = { ...data.point };
    const place = (signal, threshold) => data.stops[signal].indexOf(threshold);
    const number = (id) => {
      const field = at(id);
      return field.value !== "" && field.checkValidity() ? Number(field.value) : NaN;
    };
    const costOf = (found) => {
      const share = data.leaveOneOut ? number("unanswerable") / 100 : null;
      const each = cost(found, number("wrong"), number("abstention"), share);
      return each === null || Number.isNaN(each) ? "–" : fixed(100 * each, 1);
    };
    const own = measure(data, data.point.relevance, data.point.confidence);
    const isOwn = () => signals.every((signal) => here[signal] === data.point[signal]);
    const state = () => {
      if (!data.certified || !isOwn()) return "not certified";
      return "certified";
    };

    function element(name, text, className) {
      const made = document.createElement(name);
      if (text !== undefined) made.textContent = text;
      if (className) made.className = className;
      return made;
    }

    function drawCurves(signal) {
      const stops = data.stops[signal], last = stops.length - 1;
      const picked = stops.length <= POINTS
        ? stops.map((_, i) => i)
        : Array.from({ length: POINTS }, (_, i) => Math.round((i * last) / (POINTS - 1)));
      const paths = { leak: "", needless: "" };
      for (const i of picked) {
        const point = { ...here, [signal]: stops[i] };
        const found = measure(data, point.relevance, point.confidence);
        for (const [name, share] of [["leak", found.leak], ["needless", found.false_abstention]]) {
          if (value(share) === null) continue;
          const x = (1000 * i) / last, y = 2 + 96 * (1 - value(share));
          paths[name] += `${paths[name] ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        }
      }
      const svg = at(`${signal}-slider`).querySelector("svg");
      const line = (i) => `M${(1000 * i) / last} 0V100`;
      svg.querySelector(".leak").setAttribute("d", paths.leak);
      svg.querySelector(".needless").setAttribute("d", paths.needless);
      svg.querySelector(".here").setAttribute("d", line(place(signal, here[signal])));
      if (data.hasPoint) svg.querySelector(".own").setAttribute("d", line(place(signal, data.point[signal])));
    }

    // What a decision is called, and whether it is a mistake.
    function side(bits, way) {
      if (bits & MISSED) {
        return [bits & CONTEXT_RIGHT ? "another passage answers it" : "the answer was not retrieved", false];
      }
      const reply = replied(data, bits, way), there = bits & (CONTEXT_RIGHT | MEMORY_RIGHT);
      if (reply === "abstained") {
        const words = there ? "false abstention" : "rightly abstained";
        return [way ? `${words} in the reply` : words, Boolean(there)];
      }
      if (reply === "right") return [data.replies && !there ? "leak, right reply" : "right", false];
      return [data.leaveOneOut && !data.replies ? "leak" : "wrong", true];
    }

    function showChanges() {
      const groups = { in: [], out: [], other: [] };
      for (let i = 0; i < data.bits.length; i++) {
        const before = route(data, i, data.point.relevance, data.point.confidence);
        const now = route(data, i, here.relevance, here.confidence);
        if (before === now) continue;
        groups[!before ? "in" : !now ? "out" : "other"].push([i, now]);
      }
      const titles = {
        in: `Let through here, abstained from at ${data.pointName}`,
        out: `Abstained from here, let through at ${data.pointName}`,
        other: `Answered another way than at ${data.pointName}`,
      };
      const changes = at("changes"), parts = [];
      for (const [key, members] of Object.entries(groups)) {
        if (!members.length) continue;
        const open = changes.querySelector(`details[data-group="${key}"]`);
        const group = element("details");
        group.dataset.group = key;
        group.open = !open || open.open;
        const isMistake = ([i, now]) => side(data.bits[i], now)[1];
        const mistakes = members.filter(isMistake).length;
        members.sort((a, b) => isMistake(b) - isMistake(a));
        group.append(element("summary", `${titles[key]}: ${members.length}, mistakes among them: ${mistakes}`));
        const list = element("ul");
        for (const [i, now] of members.slice(0, SHOWN)) {
          const item = element("li"), [words, mistake] = side(data.bits[i], now);
          item.append(element("span", words, mistake ? "tag wrong" : "tag"), " ");
          const question = data.question === null ? "" : data.questions[data.question[i]];
          item.append(element("bdi", question || data.names[i]), " ");
          const numbers = question ? [data.names[i]] : [];
          if (data.relevance[i] !== null) numbers.push(`relevance ${thresholdText(data.relevance[i])}`);
          if (data.confidence && data.confidence[i] !== null) {
            numbers.push(`confidence ${thresholdText(data.confidence[i])}`);
          }
          item.append(element("bdi", numbers.join(" · "), "soft"));
          list.append(item);
        }
        group.append(list);
        if (members.length > SHOWN) group.append(element("p", `… and ${members.length - SHOWN} more.`, "soft"));
        parts.push(group);
      }
      if (!parts.length) parts.push(element("p", `None: this decides every case as ${data.pointName} does.`));
      changes.replaceChildren(...parts);
    }

    let waiting;
    function showHere() {
      const found = measure(data, here.relevance, here.confidence), said = [];
      for (const key of Object.keys(found)) {
        const row = at(`${key}-row`);
        if (!row) continue;
        row.children[1].textContent = shareText(found[key]);
        row.children[2].textContent = shareText(own[key]);
        said.push(`${row.children[0].textContent}: ${percent(value(found[key]))}`);
      }
      const row = at("cost-row");
      row.children[1].textContent = costOf(found);
      row.children[2].textContent = costOf(own);
      said.push(`Cost of 100 questions: ${costOf(found)}`);
      at("state").textContent = state();
      at("state").classList.toggle("wrong", state() !== "certified");
      at("back").disabled = isOwn();
      for (const signal of signals) {
        const slider = at(signal), text = thresholdText(here[signal]);
        slider.value = place(signal, here[signal]);
        slider.setAttribute("aria-valuetext", `${text}, ${state()}`);
        at(`${signal}-value`).textContent = text;
        drawCurves(signal);
      }
      showChanges();
      // Said once the slider rests, not at every step.
      clearTimeout(waiting);
      waiting = setTimeout(() => { at("status").textContent = `${state()}. ${said.join(". ")}.`; }, QUIET);
    }

    for (const signal of signals) {
      const slider = at(signal), last = data.stops[signal].length - 1;
      slider.max = last;
      slider.addEventListener("input", () => {
        here[signal] = data.stops[signal][Number(slider.value)];
        showHere();
      });
      const marker = at(`${signal}-marker`), share = place(signal, data.point[signal]) / last;
      if (data.hasPoint) {
        const name = data.certified ? "certified" : "the policy, not certified";
        const label = element("span", share < 0.5 ? `▲ ${name}` : `${name} ▲`);
        label.style[share < 0.5 ? "left" : "right"] = `calc(${100 * Math.min(share, 1 - share)}% - .5em)`;
        marker.append(label);
      }
    }
    for (const id of ["wrong", "abstention", "unanswerable"]) at(id)?.addEventListener("input", showHere);
    at("back").addEventListener("click", () => {
      Object.assign(here, data.point);
      showHere();
      at(signals[0]).focus();
    });
    at("table").open = false;
    box.hidden = false;
    showHere();
  }

  return { route, measure, cost, percent, thresholdText, show };
})();
document.querySelectorAll(".what-if").forEach(whatIf.show);
