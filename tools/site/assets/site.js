"use strict";

// Wide screens have the navigation open. A reader may close it.
const documents = document.querySelector("nav details");
documents.open = matchMedia("(min-width: 60rem)").matches;

// What scrolls sideways can be scrolled with the keyboard.
const wide = () => {
  for (const box of document.querySelectorAll("pre, .scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
wide();
addEventListener("resize", wide);

const root = document.body.dataset.root;
const form = document.querySelector("header form");
const query = document.querySelector("#query");
const found = document.querySelector("#found");
const most = 20;
form.hidden = false;

let sections;
const load = () => {
  sections ??= fetch(root + "search.json")
    .then((response) => (response.ok ? response.json() : Promise.reject(new Error(response.statusText))))
    .then((all) => all.map((s) => ({ ...s, heading: (s.page + " " + s.title).toLowerCase(), lower: s.text.toLowerCase() })));
  return sections;
};

// Every word has to be there; those in headings count most.
const rank = (section, words) => {
  let sum = 0;
  for (const word of words) {
    const inHeading = section.heading.includes(word);
    if (!inHeading && !section.lower.includes(word)) return 0;
    sum += inHeading ? 10 : 1;
  }
  return sum - section.heading.length / 1000;
};

// The text around the first word that is in it.
const around = (section, words) => {
  const at = Math.max(0, Math.min(...words.map((w) => section.lower.indexOf(w)).filter((i) => i >= 0)));
  if (!Number.isFinite(at)) return section.text.slice(0, 160);
  const from = Math.max(0, at - 60);
  return (from > 0 ? "… " : "") + section.text.slice(from, from + 160) + (from + 160 < section.text.length ? " …" : "");
};

const line = (section, words) => {
  const link = document.createElement("a");
  link.href = root + section.url;
  link.textContent = section.page + (section.title ? " › " + section.title : "");
  const text = document.createElement("small");
  text.textContent = around(section, words);
  const item = document.createElement("li");
  item.append(link, text);
  return item;
};

const search = async () => {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const asked = query.value;
  if (words.length === 0) {
    found.hidden = true;
    return;
  }
  let all;
  try {
    all = await load();
  } catch {
    sections = undefined;
    show("The search does not work here: a web server has to serve the site.", []);
    return;
  }
  if (asked !== query.value) return;
  const ranked = all
    .map((section) => ({ section, rank: rank(section, words) }))
    .filter((r) => r.rank > 0)
    .sort((a, b) => b.rank - a.rank);
  const number = ranked.length === 1 ? "1 result" : ranked.length + " results";
  show(ranked.length > most ? number + ", the first " + most + " of them" : number, ranked.slice(0, most).map((r) => line(r.section, words)));
};

const show = (status, lines) => {
  found.querySelector("p").textContent = status;
  found.querySelector("ol").replaceChildren(...lines);
  found.hidden = false;
};

const close = () => {
  found.hidden = true;
};

query.addEventListener("focus", () => load().catch(() => (sections = undefined)));
query.addEventListener("input", search);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !found.hidden) {
    close();
    query.focus();
  } else if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("search") || event.target.closest("#found a")) close();
});
