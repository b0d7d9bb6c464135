// The browser of groups: filters, and the groups that pass them. Whatever a model wrote becomes text nodes, never HTML.

const PAGE_SIZE = 25;
const LABELS = { all_pass: "all pass", all_fail: "all fail", unjudged: "not judged", error: "not judged" };
const MARKS = { pass: "\u2713", fail: "\u2717", error: "!" };

/** An element with a class, and children that are elements or text. */
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Control characters (escape sequences of terminals) and marks that reorder text, made visible. */
function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) => (c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0))))
    .replace(/[\u0080-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

function signed(value) {
  return (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(3);
}

function answerCard(answer) {
  const facts = [
    answer.advantage !== undefined ? `advantage ${signed(answer.advantage)}` : "",
    answer.tokens !== undefined ? `${answer.tokens.toLocaleString("en")} tokens` : "",
  ].filter(Boolean).join(" \u00b7 ");
  const card = element(
    "article", `answer ${answer.outcome}`,
    element("header", "",
      element("b", "verdict", `${MARKS[answer.outcome] ?? "?"} ${answer.outcome}`),
      element("span", "", answer.reason),
      answer.cut ? element("span", "tag", "truncated") : "",
      answer.earlier ? element("span", "tag mixed", `was ${answer.earlier}`) : "",
      element("span", "soft", facts)),
    element("pre", "", answer.text === undefined ? element("i", "soft", "empty") : visible(answer.text)));
  const found = answer.answer === undefined ? [] : [element("span", "soft", "answer "), element("code", "", visible(answer.answer))];
  const detail = answer.detail === undefined ? [] : [element("span", "soft", `${found.length ? " \u00b7 " : ""}${visible(answer.detail)}`)];
  if (found.length + detail.length) card.append(element("p", "", ...found, ...detail));
  return card;
}

function groupBody(group, sides, matches) {
  const body = element("div", "body");
  if (group.prompt !== null) body.append(element("h4", "", "Prompt"), element("pre", "prompt", visible(group.prompt)));
  if (group.reference !== null) body.append(element("p", "reference", element("span", "soft", "reference "), element("code", "", visible(group.reference))));
  const columns = element("div", sides ? "sides" : "");
  group.sides.forEach((answers, side) => {
    const column = element("div", "");
    if (sides) column.append(element("h4", "", visible(sides[side])));
    const fill = (chosen) => column.append(...chosen.map(answerCard));
    const fitting = answers.filter(matches);
    fill(fitting);
    if (fitting.length < answers.length) {
      const more = element("button", "quiet", `show the other ${answers.length - fitting.length} of ${answers.length} answers`);
      more.onclick = () => { more.remove(); fill(answers.filter((answer) => !matches(answer))); };
      column.append(more);
    }
    columns.append(column);
  });
  body.append(columns);
  return body;
}

function strip(answers) {
  const squares = answers.slice(0, 32).map((answer) => element("i", answer.outcome, MARKS[answer.outcome] ?? "?"));
  const made = element("span", "strip", ...squares);
  made.setAttribute("aria-hidden", "true");
  return made;
}

function groupElement(group, sides, matches) {
  const passes = group.sides.map((answers) => `${answers.filter((answer) => answer.outcome === "pass").length} of ${answers.length}`);
  const made = element(
    "details", "group",
    element("summary", "",
      element("span", `tag ${group.label}`, LABELS[group.label] ?? group.label),
      element("span", "problem", visible(group.problem)),
      group.step === null || group.step === undefined ? "" : element("span", "soft", `step ${group.step}`),
      ...group.sides.map(strip),
      element("span", "soft", `${passes.join(" \u2192 ")} pass`)));
  made.addEventListener("toggle", () => {
    if (made.open && made.childElementCount === 1) made.append(groupBody(group, sides, matches));
  });
  return made;
}

/** The options of one select: the values that occur, with how often. A filter with too few of them is not shown. */
function fillSelect(select, values, name, fewest = 2) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const keys = [...counts.keys()].sort((a, b) => (typeof a === "number" ? a - b : a < b ? -1 : 1));
  for (const key of keys) {
    const option = element("option", "", `${name(key)} (${counts.get(key).toLocaleString("en")})`);
    option.value = key;
    select.append(option);
  }
  select.parentElement.hidden = keys.length < fewest;
}

function startBrowser(browser, store) {
  const root = document.getElementById("browser");
  if (!root || !browser.groups.length) return;
  const fields = Object.fromEntries([...root.querySelectorAll("[data-filter]")].map((field) => [field.dataset.filter, field]));
  const [list, found, more] = ["list", "found", "more"].map((name) => root.querySelector(`[data-part=${name}]`));
  const answers = browser.groups.flatMap((group) => group.sides.flat());
  fillSelect(fields.label, browser.groups.map((group) => group.label), (value) => LABELS[value] ?? value);
  fillSelect(fields.outcome, answers.map((answer) => answer.outcome ?? "?"), String);
  fillSelect(fields.reason, answers.map((answer) => answer.reason ?? "").filter(Boolean), String);
  fillSelect(fields.earlier, answers.map((answer) => answer.earlier).filter(Boolean), (value) => `was ${value}`, 1);
  fillSelect(fields.step, browser.groups.map((group) => group.step).filter((step) => step !== null && step !== undefined), (value) => `step ${value}`);
  for (const [name, field] of Object.entries(fields)) field.value = store.get(name) ?? field.value;

  let fitting = [];
  let shown = 0;
  let matches = () => true;
  const showMore = () => {
    const next = fitting.slice(shown, shown + PAGE_SIZE).map((group) => groupElement(group, browser.sides, matches));
    shown += next.length;
    list.append(...next);
    more.hidden = shown >= fitting.length;
    more.textContent = `show more (${(fitting.length - shown).toLocaleString("en")} left)`;
    return next;
  };
  const filter = () => {
    const want = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]));
    for (const [name, value] of Object.entries(want)) store.set(name, value);
    const needle = want.text.trim().toLowerCase();
    const verdict = (answer) => (!want.outcome || answer.outcome === want.outcome) && (!want.reason || answer.reason === want.reason) && (!want.earlier || answer.earlier === want.earlier);
    const holds = (text) => text !== null && text !== undefined && text.toLowerCase().includes(needle);
    const ofGroup = (group) => holds(group.problem) || holds(group.prompt) || holds(group.reference);
    const ofAnswer = (answer) => holds(answer.text) || holds(answer.answer) || holds(answer.detail);
    fitting = browser.groups.filter((group) =>
      (!want.label || group.label === want.label) && (!want.step || String(group.step) === want.step) &&
      (needle && !ofGroup(group) ? group.sides.flat().some((answer) => verdict(answer) && ofAnswer(answer)) : group.sides.flat().some(verdict)));
    matches = verdict;
    shown = 0;
    list.replaceChildren();
    const first = showMore();
    if (fitting.length === 1) first[0].open = true;
    found.textContent = `${fitting.length.toLocaleString("en")} of ${browser.groups.length.toLocaleString("en")} ${browser.noun}`;
  };
  // not "change": a text field sends it when it loses the focus, and what was clicked would be replaced under the pointer
  for (const field of Object.values(fields)) field.addEventListener("input", filter);
  root.querySelector("[data-part=clear]").onclick = () => { for (const field of Object.values(fields)) field.value = ""; filter(); };
  more.onclick = showMore;
  for (const button of document.querySelectorAll("button[data-find]")) {
    button.onclick = () => {
      for (const field of Object.values(fields)) field.value = "";
      fields.text.value = button.dataset.find;
      filter();
      root.scrollIntoView();
    };
  }
  filter();
}
