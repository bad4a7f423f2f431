// Tables that scroll sideways can be scrolled by the keyboard, and copy buttons are no landmarks.
addEventListener("load", () => {
  const improve = () => {
    document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => { table.tabIndex = 0; });
    document.querySelectorAll("nav.md-code__nav").forEach((nav) => nav.setAttribute("role", "presentation"));
  };
  improve();
  new MutationObserver(improve).observe(document.body, { childList: true, subtree: true });
});
