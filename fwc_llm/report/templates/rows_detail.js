/* What is drawn of one row: a line of the list, and everything about it. Data becomes text, never markup. */
const CLASSES = {1: "yes", 0: "no", "-": "none"};

const make = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const percent = (p) => (p < 0 ? "–" : (p / 100).toFixed(1) + " %");

const message = ([role, name, text]) => {
  const made = make("div", undefined, "message");
  made.append(make("p", name ? `${role} · ${name}` : role, "role"), make("pre", text));
  return made;
};

class Drawn {
  constructor(rows) {
    this.rows = rows;
    this.data = rows.data;
    this.withReplies = rows.data.texts.some((text) => text);
  }

  answer(arm, question) {
    const {answer, reason} = this.data.answers[arm], own = answer[question];
    const text = own === "-" ? this.rows.reason(reason[question]) || "–" : WORDS[own];
    const made = make("span", text, CLASSES[own]);
    if (own !== "-" && own !== this.data.label[question]) made.classList.add("wrong");
    if (this.rows.flipped(arm, question)) made.classList.add("flips");
    return made;
  }

  /* All about a row, as elements; `address` is the link to it. */
  detail(question, address) {
    const {data} = this;
    const title = make("h4", this.rows.name(question));
    title.append(make("span", this.rows.group(question)), make("span", `truth: ${WORDS[this.rows.truth(question)]}`));
    const link = make("a", "link to this row");
    link.href = address;
    title.append(link);
    const table = make("table"), body = make("tbody"), head = make("tr");
    const withP = data.answers.some((arm) => arm.p[question] >= 0);
    const titles = ["arm", "answer", ...(withP ? ["P(yes)"] : []), ...(this.withReplies ? ["reply"] : [])];
    head.append(...titles.map((text) => {
      const cell = make("th", text);
      cell.scope = "col";
      return cell;
    }));
    const top = make("thead");
    top.append(head);
    data.arms.forEach((name, arm) => {
      const cells = data.answers[arm];
      const own = {answer: cells.answer[question], p: cells.p[question], reply: cells.reply[question]};
      body.append(this.line(name, this.answer(arm, question), own, withP));
      for (const twin of this.rows.twins[arm].get(question) || []) {
        const changed = twin.answer !== "-" && own.answer !== "-" && twin.answer !== own.answer;
        const text = twin.answer === "-" ? this.rows.reason(twin.reason) || "–" : WORDS[twin.answer];
        const shown = make("span", changed ? `${text} (changed)` : text, CLASSES[twin.answer]);
        const line = this.line(`told as ${data.groups[twin.group]}`, shown, twin, withP);
        line.className = "twin";
        body.append(line);
      }
    });
    table.append(top, body);
    return [title, table, ...this.prompts(question)];
  }

  line(name, shown, said, withP) {
    const line = make("tr"), head = make("th", name), answer = make("td");
    head.scope = "row";
    answer.append(shown);
    line.append(head, answer);
    if (withP) line.append(make("td", percent(said.p)));
    if (this.withReplies) line.append(make("td", this.data.texts[said.reply] || "–", "reply"));
    return line;
  }

  /* One part to unfold for each prompt; its messages are made when it is opened. */
  prompts(question) {
    const {data} = this, parts = [];
    data.arms.forEach((name, arm) => {
      const {fixed, query} = data.answers[arm];
      if (query[question] >= 0) parts.push(this.prompt(`Prompt of ${name}`, fixed[question], query[question]));
      for (const twin of this.rows.twins[arm].get(question) || []) {
        const told = `Prompt of ${name}, told as ${data.groups[twin.group]}`;
        if (twin.query >= 0) parts.push(this.prompt(told, twin.fixed, twin.query));
      }
    });
    return parts;
  }

  prompt(title, fixed, query) {
    return this.folded(title, () => {
      const first = this.data.fixed[fixed], examples = first.slice(1);
      const parts = first.slice(0, 1).map(message);
      if (examples.length > 2) parts.push(this.folded(`${examples.length} messages with the examples`, () => examples.map(message)));
      else parts.push(...examples.map(message));
      return [...parts, ...this.rows.query(query).map(message)];
    });
  }

  folded(title, build) {
    const made = make("details");
    made.append(make("summary", title));
    made.addEventListener("toggle", () => {
      if (made.open && made.children.length === 1) made.append(...build());
    });
    return made;
  }
}

