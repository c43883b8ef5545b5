// The search page. PAGES is what search_index.py wrote. A page is found where each word of the query is
// a part of its text, so that PMSCR finds PMSCR_EL1 and --smp is a word like any other.
"use strict";

(() => {
  const MOST_SECTIONS = 3; // of a page
  const AROUND = 100; // characters of text on each side of what was found
  const COUNTED = 10; // a section gains nothing from more hits
  const FIRST = /^reference\//; // what something is stands first,
  const LAST = /^(adr\/|CHANGELOG)/; // and last how it came to be

  const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const anyOf = (words) => new RegExp(words.map(literal).join("|"), "gi");
  const marked = (text, words) => {
    let result = "", end = 0;
    for (const hit of text.matchAll(anyOf(words))) {
      result += `${escaped(text.slice(end, hit.index))}<mark>${escaped(hit[0])}</mark>`;
      end = hit.index + hit[0].length;
    }
    return result + escaped(text.slice(end));
  };

  function score(title, text, word) {
    const [inTitle, inText] = [title, text].map((t) => t.toLowerCase().split(word).length - 1);
    const whole = new RegExp(`(^|[^\\w-])${literal(word)}($|[^\\w-])`, "i");
    return (inTitle ? (whole.test(title) ? 60 : 30) : 0)
      + (whole.test(text) ? 10 : 0) + Math.min(inText, COUNTED);
  }

  function excerpt(text, words) {
    const first = text.search(anyOf(words));
    if (first < 0) return escaped(text.slice(0, 2 * AROUND)) + (text.length > 2 * AROUND ? " …" : "");
    const start = first > AROUND ? text.indexOf(" ", first - AROUND) + 1 : 0;
    const from = start > first ? first : start;
    const last = text.lastIndexOf(" ", first + AROUND);
    const to = first + AROUND >= text.length ? text.length : Math.max(last, first + words[0].length);
    return `${from > 0 ? "… " : ""}${marked(text.slice(from, to), words)}${to < text.length ? " …" : ""}`;
  }

  function search(words) {
    const found = [];
    for (const page of PAGES) {
      const scores = page.sections.map(([, title, text]) => words.map((w) => score(title, text, w)));
      if (!words.every((_, number) => scores.some((of) => of[number] > 0))) continue;
      const sections = scores
        .map((of, place) => ({ of, place, sum: of.reduce((a, b) => a + b), all: of.every((s) => s > 0) }))
        .filter(({ sum }) => sum > 0)
        .sort((a, b) => b.all - a.all || b.sum - a.sum || a.place - b.place);
      const best = sections[0];
      found.push({
        page, all: best.all,
        sum: best.sum * (FIRST.test(page.address) ? 2 : LAST.test(page.address) ? 0.25 : 1),
        sections: sections.slice(0, MOST_SECTIONS).map(({ place }) => page.sections[place]),
        more: Math.max(0, sections.length - MOST_SECTIONS),
      });
    }
    return found.sort((a, b) => b.all - a.all || b.sum - a.sum);
  }

  function show(query) {
    const words = [...new Set(query.toLowerCase().split(/\s+/).filter(Boolean))];
    const results = document.getElementById("results");
    const count = document.getElementById("found");
    const found = words.join("").length > 1 ? search(words) : [];
    count.textContent = words.join("").length < 2 ? ""
      : found.length === 0 ? `Nothing has ${words.length > 1 ? "all of these" : "this"}.`
        : `On ${found.length} ${found.length === 1 ? "page" : "pages"}:`;
    results.innerHTML = found.map(({ page, sections, more }) => {
      const links = sections.map(([anchor, title, text]) =>
        `<dt><a href="${page.address}${anchor && "#"}${anchor}">${marked(title, words)}</a></dt>`
        + `<dd>${excerpt(text, words)}</dd>`).join("");
      const rest = more ? `<p>and ${more} more ${more === 1 ? "section" : "sections"}</p>` : "";
      return `<article><h2><a href="${page.address}">${marked(page.title, words)}</a></h2>`
        + `<dl>${links}</dl>${rest}</article>`;
    }).join("");
  }

  const input = document.getElementById("query");
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", () => show(input.value));
  show(input.value);
})();
