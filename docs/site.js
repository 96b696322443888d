// Names and keyboard access that the theme leaves out.
document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
new MutationObserver(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    table.tabIndex = 0;
  }
}).observe(document.body, { childList: true, subtree: true });
