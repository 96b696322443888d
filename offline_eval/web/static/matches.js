"use strict";
// Marks words and cited parts in texts; every text stays text.
window.knowgate = (() => {
  const strength = (value) => (value >= 0.8 ? "m3" : value >= 0.6 ? "m2" : "m1");

  const mark = (element, words, title) => {
    // Positions count characters, not halves of them.
    const signs = [...element.textContent];
    const parts = [];
    let done = 0;
    for (const word of words) {
      if (word.start < done) continue;
      parts.push(signs.slice(done, word.start).join(""));
      const marked = document.createElement("mark");
      marked.className = strength(word.strength);
      marked.title = title(word);
      marked.textContent = signs.slice(word.start, word.end).join("");
      parts.push(marked);
      done = word.end;
    }
    parts.push(signs.slice(done).join(""));
    element.replaceChildren(...parts);
  };

  const showMatches = (found, question = document.getElementById("question")) => {
    if (question) {
      mark(question, found.question, (word) => (word.strength >= 0.4
        ? `best met by passage ${word.word} (${word.strength.toFixed(2)})`
        : `met by no passage (${word.strength.toFixed(2)})`));
    }
    for (const element of document.querySelectorAll("[data-passage]")) {
      const words = found.passages[Number(element.dataset.passage)] ?? [];
      mark(element, words, (word) => `${word.word} (${word.strength.toFixed(2)})`);
    }
  };

  // Sentences that a passage carries lead to that part of it.
  const cite = (one) => {
    for (const mark of document.querySelectorAll("[data-passage] mark.cited")) {
      mark.replaceWith(mark.textContent);
    }
    const text = document.querySelector(`[data-passage="${one.passage}"]`);
    if (!text) return;
    const whole = [...text.textContent];
    const part = (from, to) => whole.slice(from, to).join("");
    const mark = document.createElement("mark");
    mark.className = "cited";
    mark.textContent = part(one.passage_start, one.passage_end);
    text.replaceChildren(part(0, one.passage_start), mark, part(one.passage_end));
    mark.scrollIntoView({ block: "center" });
  };

  // Returns what to say of sentences that no passage carries, or nothing.
  const showCitations = ({ sentences, threshold }, reply) => {
    const whole = [...reply.textContent];
    const parts = [];
    let last = 0;
    let bad = 0;
    for (const one of sentences) {
      parts.push(whole.slice(last, one.start).join(""));
      const told = whole.slice(one.start, one.end).join("");
      last = one.end;
      if (one.support === null) {
        parts.push(told);
        continue;
      }
      const unsupported = one.support < threshold;
      bad += unsupported;
      const made = document.createElement(one.passage === null ? "span" : "button");
      made.className = unsupported ? "sentence unsupported" : "sentence";
      made.textContent = told;
      const why = one.missing.length ? `: ${one.missing.join(", ")}` : "";
      made.title = `support ${one.support.toFixed(3)}${why}`;
      if (one.passage !== null) {
        made.type = "button";
        made.addEventListener("click", () => cite(one));
      }
      parts.push(made);
    }
    reply.replaceChildren(...parts, whole.slice(last).join(""));
    return bad ? `${bad} of ${sentences.length} sentences not borne out by the passages` : "";
  };
  return { showMatches, showCitations };
})();
