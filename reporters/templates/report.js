"use strict";
// Hides what the filter does not ask for, moves between skills by keys, and opens what a link leads to.
(() => {
  const bar = document.querySelector(".filter");
  if (!bar) return;
  const field = document.getElementById("filter");
  const found = document.getElementById("found");
  const boxes = [...bar.querySelectorAll("[data-verdict]")];
  const skills = [...document.querySelectorAll("section.skill")].map((section) => ({
    section,
    others: document.querySelectorAll(
      `[data-skill="${CSS.escape(section.id)}"], [data-of="${CSS.escape(section.id)}"]`
    ),
    text: section.textContent.toLowerCase(),
  }));
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.dataset.verdict));
    let shown = 0;
    for (const { section, others, text } of skills) {
      const fits = wanted.has(section.dataset.verdict) && words.every((word) => text.includes(word));
      for (const element of [section, ...others]) element.toggleAttribute("data-hidden", !fits);
      shown += fits ? 1 : 0;
    }
    found.textContent = shown === skills.length ? "" : `${shown} of ${skills.length} skills`;
  };
  const visible = () => skills.map((skill) => skill.section).filter((section) => !section.hasAttribute("data-hidden"));
  const current = () => visible().findIndex((section) => section.contains(document.activeElement));
  const go = (step) => {
    const all = visible();
    if (!all.length) return;
    const at = current();
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length;
    const summary = all[next].querySelector("summary");
    summary.focus();
    summary.scrollIntoView({ block: "start" });
  };
  const reveal = () => {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.closest("[data-hidden]")) reset();
    for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    const own = target.querySelector(":scope > details");
    if (own) own.open = true;
    target.scrollIntoView({ block: target.matches(".line") ? "center" : "start" });
  };
  const reset = () => {
    field.value = "";
    for (const box of boxes) box.checked = true;
    apply();
  };
  field.addEventListener("input", apply);
  for (const box of boxes) box.addEventListener("change", apply);
  for (const button of bar.querySelectorAll("[data-all]")) {
    button.addEventListener("click", () => {
      for (const section of visible()) section.querySelector("details").open = button.dataset.all === "open";
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { reset(); field.blur(); return; }
    if (event.target.matches("input, textarea")) return;
    if (event.key === "/") { event.preventDefault(); field.focus(); }
    else if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "o") {
      const section = visible()[current()];
      if (section) { const details = section.querySelector("details"); details.open = !details.open; }
    }
  });
  window.addEventListener("hashchange", reveal);
  bar.hidden = false;
  reveal();
})();
