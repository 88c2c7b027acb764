/* The row browser: filters, sorting, and one row's answers, replies and prompts. Data become text nodes, never markup.
   A run's rows are parsed when its part of the page is opened; report/rows.py documents their format. */
const PAGE = 50; // rows that are added at a time
const MANY_ARMS = 6; // more arms do not fit as columns

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
const percent = (p) => (p === undefined ? "–" : (100 * p).toFixed(1) + " %");
const words = (said) => said.answer || said.reason || "–";
const wrong = (own, row) => own.answer && own.answer !== row.label;
const changed = (twin, row) => {
  const own = row.answers[twin.arm].answer;
  return own && twin.answer && twin.answer !== own;
};
const flipped = (row, arm) => row.twins.some((twin) => twin.arm === arm && changed(twin, row));

/* Filters: [title, predicate of (the arm's answer, row, arm)]. */
const SHOWN = {
  "": ["all rows", () => true],
  disagree: ["arms disagree", (own, row) => row.answers.some((other) => other.answer !== own.answer)],
  wrong: ["wrong answers", wrong],
  "false-yes": ["wrongly yes", (own, row) => own.answer === "yes" && row.label === "no"],
  "false-no": ["wrongly no", (own, row) => own.answer === "no" && row.label === "yes"],
  unanswered: ["refused or no answer", (own) => !own.answer],
  flips: ["changed with the group", (own, row, arm) => flipped(row, arm)],
};

class Browser {
  constructor(root) {
    const block = root.querySelector("script");
    Object.assign(this, JSON.parse(block.textContent), {root, sorted: null, sign: 1});
    block.remove();
    this.find = (selector) => root.querySelector(selector);
    this.fields = Object.fromEntries([...root.querySelectorAll("[data-filter]")].map((e) => [e.dataset.filter, e]));
    this.rows.forEach((row, place) => Object.assign(row, {place}));
    this.repeated = this.rows.some((row) => row.repeat !== this.rows[0].repeat);
    this.columns = this.columnsOf();
    this.fill();
    for (const part of root.querySelectorAll("[hidden]:not(.rows-one)")) part.hidden = false;
    this.fields.arm.parentElement.hidden = this.arms.length < 2;
    this.apply();
  }

  /* [title, sort key, cell] of each column. */
  columnsOf() {
    const fixed = [
      [this.repeated ? "row · repeat" : "row", (row) => row.place, (row) => this.button(row)],
      ["group", (row) => row.group, (row) => make("span", row.group)],
      ["truth", (row) => row.label, (row) => make("span", row.label, row.label)],
    ];
    const count = (row, one) => row.answers.filter((own) => own.answer === one).length;
    const said = (row) => `${count(row, "yes")} yes, ${count(row, "no")} no, ${count(row, undefined)} no answer`;
    if (this.arms.length > MANY_ARMS) return [...fixed, ["answers", (row) => count(row, "yes"), (row) => make("span", said(row))]];
    const key = ({answer, p}) => (answer || "") + (1 + (p ?? -1));
    return [...fixed, ...this.arms.map((name, arm) => [name, (row) => key(row.answers[arm]), (row) => this.answer(row, arm)])];
  }

  fill() {
    const groups = [...new Set(this.rows.map((row) => row.group))], flips = this.rows.some((row) => row.twins.length);
    const shown = Object.entries(SHOWN).map(([value, [text]]) => [value, text])
      .filter(([value]) => (value !== "disagree" || this.arms.length > 1) && (value !== "flips" || flips));
    const options = {
      show: shown,
      arm: [["", "any"], ...this.arms.map((name) => [name, name])],
      group: [["", "all"], ...groups.map((name) => [name, name])],
    };
    for (const [name, pairs] of Object.entries(options)) {
      this.fields[name].append(...pairs.map(([value, text]) => Object.assign(make("option", text), {value})));
    }
    for (const field of Object.values(this.fields)) field.addEventListener("input", () => this.apply());
    this.find("thead tr").append(...this.columns.map(([title], column) => {
      const sorter = make("button", title), head = heading(undefined, "col");
      sorter.addEventListener("click", () => {
        this.sign = this.sorted === column ? -this.sign : 1;
        this.sorted = column;
        this.apply();
      });
      head.append(sorter);
      return head;
    }));
    this.find(".rows-earlier").addEventListener("click", () => this.draw(this.first - PAGE));
    this.find(".rows-later").addEventListener("click", () => this.draw(this.first + PAGE));
  }

  apply() {
    const {show, arm, group, q} = this.fields, text = q.value.toLowerCase().trim(), [, wanted] = SHOWN[show.value];
    const any = (row) => row.answers.some((own, place) => (!arm.value || this.arms[place] === arm.value) && wanted(own, row, place));
    this.left = this.rows.filter((row) =>
      (!group.value || row.group === group.value) && any(row) && (!text || this.text(row).includes(text)));
    if (this.sorted !== null) {
      const keys = new Map(this.left.map((row) => [row, this.columns[this.sorted][1](row)]));
      this.left.sort((a, b) => this.sign * (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0));
    }
    this.root.querySelectorAll("thead th").forEach((head, place) =>
      head.setAttribute("aria-sort", place !== this.sorted ? "none" : this.sign > 0 ? "ascending" : "descending"));
    this.draw(0);
  }

  /* The text that a search covers. */
  text(row) {
    const said = row.answers.flatMap((own) => [own.reply, own.reason]);
    const asked = new Set(row.answers.flatMap((own) => (own.prompt ? [own.prompt[1]] : [])));
    const prompts = [...asked].flatMap((place) => this.prompts[place].map(([, , text]) => text));
    return [row.row, row.group, ...said, ...prompts].join("\n").toLowerCase();
  }

  draw(first) {
    this.first = first;
    const last = Math.min(first + PAGE, this.left.length), number = (value) => value.toLocaleString("en");
    this.find(".rows-count").textContent = `${number(this.left.length)} of ${number(this.rows.length)} rows`;
    this.find(".rows-page").textContent = this.left.length ? `${number(first + 1)} to ${number(last)}` : "none";
    this.find(".rows-earlier").disabled = first === 0;
    this.find(".rows-later").disabled = last === this.left.length;
    this.find("tbody").replaceChildren(...this.left.slice(first, last).map((row) => {
      const cells = this.columns.map(([title, , cell], place) => {
        const made = place ? make("td") : heading(undefined, "row");
        made.append(cell(row));
        made.dataset.label = title;
        return made;
      });
      return make("tr", undefined, undefined, ...cells);
    }));
  }

  button(row) {
    const made = make("button", this.name(row));
    made.addEventListener("click", () => this.choose(row));
    return made;
  }

  name(row) {
    return row.row + (this.repeated ? ` · ${row.repeat + 1}` : "");
  }

  answer(row, arm) {
    const own = row.answers[arm], made = make("span", words(own), own.answer || "none");
    made.classList.toggle("wrong", Boolean(wrong(own, row)));
    made.classList.toggle("flips", flipped(row, arm));
    return made;
  }

  /* A row's details: each arm's answer and reply, those about its counterfactuals, and the prompts. */
  choose(row) {
    const one = this.find(".rows-one"), body = make("tbody"), prompts = [];
    const withP = row.answers.some((own) => own.p !== undefined), withReplies = this.rows.some((any) => any.answers.some((own) => own.reply));
    const titles = ["arm", "answer", ...(withP ? ["P(yes)"] : []), ...(withReplies ? ["reply"] : [])];
    const line = (name, shown, said, kind) => {
      const made = make("tr", undefined, kind, heading(name, "row"), make("td", undefined, undefined, shown));
      if (withP) made.append(make("td", percent(said.p)));
      if (withReplies) made.append(make("td", said.reply || "–", "reply"));
      body.append(made);
      if (said.prompt) prompts.push(this.prompt(`Prompt of ${name}`, said.prompt));
    };
    this.arms.forEach((name, arm) => {
      line(name, this.answer(row, arm), row.answers[arm]);
      for (const twin of row.twins.filter((each) => each.arm === arm)) {
        const shown = make("span", words(twin) + (changed(twin, row) ? " (changed)" : ""), twin.answer || "none");
        line(`${name}, told as ${twin.group}`, shown, twin, "twin");
      }
    });
    const head = make("thead", undefined, undefined, make("tr", undefined, undefined, ...titles.map((text) => heading(text, "col"))));
    const title = make("h4", this.name(row), undefined, make("span", row.group), make("span", `truth: ${row.label}`));
    one.replaceChildren(title, make("table", undefined, undefined, head, body), ...prompts);
    one.hidden = false;
    one.focus();
  }

  prompt(title, places) {
    return folded(title, () => {
      const [[system, ...examples], query] = places.map((place) => this.prompts[place].map(message));
      const few = examples.length < 3 ? examples : [folded(`${examples.length} messages with the examples`, () => examples)];
      return [...(system ? [system] : []), ...few, ...query];
    });
  }
}

for (const root of document.querySelectorAll("div.rows")) {
  root.closest("details").addEventListener("toggle", () => new Browser(root), {once: true});
}
