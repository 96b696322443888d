"use strict";
// Marks words in texts; every text stays text.
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
  return { showMatches };
})();
