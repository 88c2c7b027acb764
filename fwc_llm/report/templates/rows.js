/* The browser of rows: filter, sort, and one row's answers, replies and prompts. Data becomes text, never markup.
   The rows of a run are parsed when their part of the page is opened; report/rows.py has the same names. */
const WORDS = {1: "yes", 0: "no", "-": "no answer"}, CLASSES = {1: "yes", 0: "no", "-": "none"};
const PAGE = 50; // rows that are drawn at a time
const MANY_ARMS = 6; // more do not fit beside each other

const make = (name, text, kind, ...children) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  made.append(...children);
  return made;
};
const heading = (text, scope) => {
  const made = make("th", text);
  made.scope = scope;
  return made;
};
const folded = (title, build) => {
  const made = make("details", undefined, undefined, make("summary", title));
  made.addEventListener("toggle", () => made.append(...build()), {once: true});
  return made;
};
const message = ([role, name, text]) =>
  make("div", undefined, "message", make("p", name ? `${role} · ${name}` : role, "role"), make("pre", text));
const percent = (p) => (p < 0 ? "–" : (p / 100).toFixed(1) + " %");

class Browser {
  constructor(root) {
    const block = root.querySelector("script");
    this.data = JSON.parse(block.textContent);
    block.remove();
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.fields = Object.fromEntries([...root.querySelectorAll("[data-filter]")].map((e) => [e.dataset.filter, e]));
    this.twins = this.data.arms.map(() => new Map());
    this.data.variants.forEach((cells, arm) => {
      for (const [question, group, answer, reason, p, reply, fixed, query] of cells) {
        if (!this.twins[arm].has(question)) this.twins[arm].set(question, []);
        this.twins[arm].get(question).push({group, answer, reason, p, reply, fixed, query});
      }
    });
    this.repeated = new Set(this.data.repeat).size > 1;
    this.columns = this.columnsOf();
    this.order = {column: null, sign: 1};
    this.fill();
    for (const part of root.querySelectorAll("[hidden]:not(.rows-one)")) part.hidden = false;
    this.fields.arm.parentElement.hidden = this.data.arms.length < 2;
    this.apply();
  }

  /* Title, what rows are sorted by, and the cell of each column. */
  columnsOf() {
    const {arms, rows, label, answers} = this.data, count = (q, one) => answers.filter((a) => a.answer[q] === one).length;
    const fixed = [
      [this.repeated ? "row · repeat" : "row", (q) => q, (q) => this.button(q)],
      ["group", (q) => this.group(q), (q) => make("span", this.group(q))],
      ["truth", (q) => label[q], (q) => make("span", WORDS[label[q]], CLASSES[label[q]])],
    ];
    const said = (q) => ["1", "0", "-"].map((one) => `${count(q, one)} ${WORDS[one]}`).join(", ");
    if (arms.length > MANY_ARMS) return [...fixed, ["answers", (q) => count(q, "1"), (q) => make("span", said(q))]];
    const key = (arm) => (q) => answers[arm].answer[q] + String(1e5 + answers[arm].p[q]);
    return [...fixed, ...arms.map((name, arm) => [name, key(arm), (q) => this.answer(arm, q)])];
  }

  fill() {
    const {arms, groups} = this.data, flips = this.twins.some((one) => one.size);
    const options = {
      show: [["", "all rows"], arms.length > 1 && ["disagree", "arms disagree"], ["wrong", "wrong answers"],
        ["false-yes", "wrongly yes"], ["false-no", "wrongly no"], ["unanswered", "refused or no answer"],
        flips && ["flips", "changed with the group"]].filter(Boolean),
      arm: [["", "any"], ...arms.map((name) => [name, name])],
      group: [["", "all"], ...groups.map((name) => [name, name])],
    };
    for (const [name, pairs] of Object.entries(options)) {
      this.fields[name].append(...pairs.map(([value, text]) => Object.assign(make("option", text), {value})));
    }
    for (const field of Object.values(this.fields)) field.addEventListener("input", () => this.apply());
    this.find("thead tr").append(...this.columns.map(([title], column) => {
      const sorter = make("button", title);
      sorter.addEventListener("click", () => {
        this.order = {column, sign: this.order.column === column ? -this.order.sign : 1};
        this.apply();
      });
      const head = heading(undefined, "col");
      head.append(sorter);
      return head;
    }));
    this.find(".rows-earlier").addEventListener("click", () => this.draw(this.first - PAGE));
    this.find(".rows-later").addEventListener("click", () => this.draw(this.first + PAGE));
  }

  apply() {
    const group = this.data.groups.indexOf(this.fields.group.value), words = this.fields.q.value.toLowerCase().trim();
    const all = this.data.rows.map((_, q) => q);
    this.left = all.filter((q) => (group < 0 || this.data.group[q] === group) && this.wanted(q)
      && (!words || this.text(q).includes(words)));
    const {column, sign} = this.order;
    if (column !== null) {
      const keys = new Map(this.left.map((q) => [q, this.columns[column][1](q)]));
      this.left.sort((a, b) => sign * (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0) || a - b);
    }
    this.root.querySelectorAll("thead th").forEach((head, place) =>
      head.setAttribute("aria-sort", place !== column ? "none" : sign > 0 ? "ascending" : "descending"));
    this.draw(0);
  }

  wanted(q) {
    const {show, arm} = this.fields, {answers, label} = this.data;
    const arms = arm.value ? [this.data.arms.indexOf(arm.value)] : answers.map((_, place) => place);
    const any = (test) => arms.some((one) => test(answers[one].answer[q], one));
    switch (show.value) {
      case "disagree": return answers.some((one) => one.answer[q] !== answers[0].answer[q]);
      case "wrong": return any((own) => own !== "-" && own !== label[q]);
      case "false-yes": return any((own) => own === "1" && label[q] === "0");
      case "false-no": return any((own) => own === "0" && label[q] === "1");
      case "unanswered": return any((own) => own === "-");
      case "flips": return any((_, one) => this.flipped(one, q));
      default: return true;
    }
  }

  /* What the search looks through. */
  text(q) {
    const {data} = this, queries = new Set(data.answers.map((arm) => arm.query[q]).filter((query) => query >= 0));
    const parts = data.answers.flatMap((arm) => [data.texts[arm.reply[q]], data.reasons[arm.reason[q]]]);
    for (const query of queries) parts.push(...data.queries[query].map((one) => one[2]));
    return [data.rows[q], this.group(q), ...parts].join("\n").toLowerCase();
  }

  draw(first) {
    this.first = first;
    const last = Math.min(first + PAGE, this.left.length), number = (value) => value.toLocaleString("en");
    this.find(".rows-count").textContent = `${number(this.left.length)} of ${number(this.data.rows.length)} rows`;
    this.find(".rows-page").textContent = this.left.length ? `${number(first + 1)} to ${number(last)}` : "none";
    this.find(".rows-earlier").disabled = first === 0;
    this.find(".rows-later").disabled = last === this.left.length;
    this.find("tbody").replaceChildren(...this.left.slice(first, last).map((q) => {
      const cells = this.columns.map(([title, , cell], place) => {
        const made = place ? make("td", undefined, undefined, cell(q)) : heading(undefined, "row");
        if (!place) made.append(cell(q));
        made.dataset.label = title;
        return made;
      });
      return make("tr", undefined, undefined, ...cells);
    }));
  }

  button(q) {
    const made = make("button", this.name(q));
    made.addEventListener("click", () => this.choose(q));
    return made;
  }

  name(q) {
    return this.data.rows[q] + (this.repeated ? ` · ${this.data.repeat[q] + 1}` : "");
  }

  group(q) {
    return this.data.groups[this.data.group[q]];
  }

  answer(arm, q) {
    const {answer, reason} = this.data.answers[arm], own = answer[q];
    const made = make("span", own === "-" ? this.data.reasons[reason[q]] || "–" : WORDS[own], CLASSES[own]);
    made.classList.toggle("wrong", own !== "-" && own !== this.data.label[q]);
    made.classList.toggle("flips", this.flipped(arm, q));
    return made;
  }

  flipped(arm, q) {
    const own = this.data.answers[arm].answer[q], pairs = this.twins[arm].get(q) || [];
    return own !== "-" && pairs.some((twin) => twin.answer !== "-" && twin.answer !== own);
  }

  /* All about a row: every arm's answer and reply, and below the same row told as another group's; the prompts. */
  choose(q) {
    const {data} = this, one = this.find(".rows-one"), body = make("tbody"), prompts = [];
    const withP = data.answers.some((arm) => arm.p[q] >= 0), withReplies = data.texts.some((text) => text);
    const titles = ["arm", "answer", ...(withP ? ["P(yes)"] : []), ...(withReplies ? ["reply"] : [])];
    const line = (name, shown, said, kind) => {
      const made = make("tr", undefined, kind, heading(name, "row"), make("td", undefined, undefined, shown));
      if (withP) made.append(make("td", percent(said.p)));
      if (withReplies) made.append(make("td", data.texts[said.reply] || "–", "reply"));
      body.append(made);
      if (said.query >= 0) prompts.push(this.prompt(`Prompt of ${name}`, said));
    };
    data.arms.forEach((name, arm) => {
      const own = Object.fromEntries(Object.entries(data.answers[arm]).map(([key, column]) => [key, column[q]]));
      line(name, this.answer(arm, q), own);
      for (const twin of this.twins[arm].get(q) || []) {
        const text = twin.answer === "-" ? data.reasons[twin.reason] || "–" : WORDS[twin.answer];
        const changed = twin.answer !== "-" && own.answer !== "-" && twin.answer !== own.answer ? " (changed)" : "";
        line(`${name}, told as ${data.groups[twin.group]}`, make("span", text + changed, CLASSES[twin.answer]), twin, "twin");
      }
    });
    const head = make("thead", undefined, undefined, make("tr", undefined, undefined, ...titles.map((text) => heading(text, "col"))));
    const title = make("h4", this.name(q), undefined, make("span", this.group(q)), make("span", `truth: ${WORDS[data.label[q]]}`));
    one.replaceChildren(title, make("table", undefined, undefined, head, body), ...prompts);
    one.hidden = false;
    one.focus();
  }

  prompt(title, {fixed, query}) {
    return folded(title, () => {
      const [system, ...examples] = this.data.fixed[fixed].map(message);
      const few = examples.length < 3 ? examples : [folded(`${examples.length} messages with the examples`, () => examples)];
      return [...(system ? [system] : []), ...few, ...this.data.queries[query].map(message)];
    });
  }
}

for (const root of document.querySelectorAll("div.rows")) {
  root.closest("details").addEventListener("toggle", () => new Browser(root), {once: true});
}
