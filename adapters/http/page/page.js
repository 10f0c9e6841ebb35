"use strict";
// Replaces the sections that changed every two seconds, and sends the forms without leaving the page.
// The server escapes all content; this script builds no HTML.

const EVERY_MS = 2000;
const shown = {};
const said = document.getElementById("said");

function replace(id, html) {
  const section = document.getElementById(id);
  if (!section || shown[id] === html) return;
  shown[id] = html;
  const focused = section.contains(document.activeElement) ? document.activeElement.id : "";
  section.innerHTML = html;
  if (focused) document.getElementById(focused)?.focus();
}

function say(text) {
  if (said.textContent !== text) said.textContent = text;
}

let lost = false;

async function refresh() {
  try {
    const answer = await fetch("sections", { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    for (const [id, html] of Object.entries(await answer.json())) replace(id, html);
    if (lost) say("The job answers again.");
    lost = false;
  } catch {
    if (!lost) say("The job does not answer; what is shown is old.");
    lost = true;
  }
}

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  if (event.submitter?.name) form.set(event.submitter.name, event.submitter.value);
  say("The signal is sent…");
  try {
    const answer = await fetch("signals", {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(form),
    });
    const type = answer.headers.get("Content-Type") || "";
    say(type.startsWith("application/json") ? (await answer.json()).text : await answer.text());
  } catch {
    say("The signal was not sent: the job does not answer.");
  }
  await refresh();
});

async function keepRefreshing() {
  if (!document.hidden) await refresh();
  setTimeout(keepRefreshing, EVERY_MS);
}
setTimeout(keepRefreshing, EVERY_MS);
