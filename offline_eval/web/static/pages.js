"use strict";
// Keys of lists and cases, and the words that match.
(() => {
  const find = (id) => document.getElementById(id);
  const rows = [...document.querySelectorAll(".row")];
  const keysOn = find("keys-on");
  const stored = "knowgate-keys";
  let current = -1;

  try {
    keysOn.checked = sessionStorage.getItem(stored) !== "off";
  } catch { /* not allowed here: they stay on */ }
  keysOn.addEventListener("change", () => {
    try {
      sessionStorage.setItem(stored, keysOn.checked ? "on" : "off");
    } catch { /* likewise */ }
  });
  find("show-keys").addEventListener("click", () => find("keys").showModal());

  const select = (number) => {
    if (!rows.length) return;
    rows[current]?.classList.remove("current");
    current = Math.min(Math.max(number, 0), rows.length - 1);
    rows[current].classList.add("current");
    rows[current].querySelector("a").focus();
    rows[current].scrollIntoView({ block: "nearest" });
  };
  rows.forEach((row, number) => row.addEventListener("focusin", () => {
    rows[current]?.classList.remove("current");
    current = number;
    row.classList.add("current");
  }));

  const follow = (id) => {
    const link = find(id);
    if (link) link.click();
    return Boolean(link);
  };
  const actions = {
    j: () => (rows.length ? select(current + 1) : follow("after")),
    k: () => (rows.length ? select(current - 1) : follow("before")),
    u: () => follow("up"),
    "[": () => follow("page-before"),
    "]": () => follow("page-after"),
    "/": () => find("search")?.focus(),
    "?": () => find("keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (typing && event.key === "Escape") typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || find("keys").open) return;
    const action = actions[event.key.toLowerCase()];
    if (!action || !keysOn.checked) return;
    event.preventDefault();
    action();
  });

  for (const form of document.querySelectorAll("[data-submits]")) {
    for (const field of form.querySelectorAll("select")) {
      field.addEventListener("change", () => form.requestSubmit());
    }
    // Empty fields would make links long.
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData]) {
        if (value === "") event.formData.delete(name);
      }
    });
  }

  const reply = find("reply");
  if (reply?.dataset.citations) {
    fetch(reply.dataset.citations)
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer)))
      .then((found) => {
        find("reply-status").textContent = window.knowgate.showCitations(found, reply)
          || "A sentence leads to the part of a passage that carries it.";
      })
      .catch(() => { find("reply-status").textContent = "The reply could not be compared."; });
  }

  const status = find("match-status");
  if (status) {
    status.textContent = "Looking for the words that match …";
    fetch(status.dataset.matches)
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer)))
      .then((found) => {
        window.knowgate.showMatches(found);
        status.textContent = "Marked: the word of a passage that is nearest to each word of the "
          + "question; the stronger the colour, the nearer. Dotted in the question: met by none.";
      })
      .catch(() => { status.textContent = "The words that match could not be found."; });
  }
})();
