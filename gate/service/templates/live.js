"use strict";
// Asks for new lines of a run that is under way and adds them; when the run ends the page is loaded again, once.
(() => {
  const place = document.getElementById("live");
  const box = document.getElementById("box");
  const log = document.getElementById("log");
  const parts = document.getElementById("parts");
  const counted = document.getElementById("counted");
  const address = `/runs/${place.dataset.job}/events`;
  let wait = 1500;
  const add = (event) => {
    const item = document.createElement("li");
    const time = document.createElement("time");
    item.className = event.kind;
    time.dateTime = event.at;
    time.textContent = event.clock;
    item.append(time, ` ${event.text}`);
    log.append(item);
    log.dataset.after = String(event.number);
  };
  const ask = async () => {
    try {
      const answer = await fetch(`${address}?after=${log.dataset.after}`, { credentials: "same-origin" });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const found = await answer.json();
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
      found.events.forEach(add);
      if (found.events.length) document.getElementById("silent")?.remove();
      if (atEnd) box.scrollTop = box.scrollHeight;
      parts.max = Math.max(found.parts, 1);
      parts.value = found.parts_done;
      counted.textContent = `${found.parts_done} of ${found.parts || "?"}`;
      if (found.ended || found.state !== place.dataset.state) { location.reload(); return; }
      wait = 1500;
    } catch {
      wait = Math.min(wait * 2, 30000);
    }
    setTimeout(ask, wait);
  };
  box.scrollTop = box.scrollHeight;
  setTimeout(ask, wait);
})();
