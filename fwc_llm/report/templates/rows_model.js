/* The rows of one run, as the page holds them; see report/rows.py for the names. */
const WORDS = {1: "yes", 0: "no", "-": "no answer"};
const ALL = "all";

class Rows {
  constructor(data) {
    this.data = data;
    this.twins = this.byQuestion();
    this.repeats = new Set(data.repeat).size > 1;
  }

  get number() {
    return this.data.rows.length;
  }

  get anyFlip() {
    return this.twins.some((one) => one.size);
  }

  byQuestion() {
    const found = this.data.arms.map(() => new Map());
    this.data.variants.forEach((cells, arm) => {
      for (const [question, group, answer, reason, p, reply, fixed, query] of cells) {
        if (!found[arm].has(question)) found[arm].set(question, []);
        found[arm].get(question).push({group, answer, reason, p, reply, fixed, query});
      }
    });
    return found;
  }

  wanted(question, state) {
    const {data} = this;
    const arms = state.arm ? [data.arms.indexOf(state.arm)] : data.arms.map((_, arm) => arm);
    const said = arms.map((arm) => data.answers[arm].answer[question]);
    const truth = data.label[question];
    switch (state.show) {
      case "disagree": return data.answers.some((arm) => arm.answer[question] !== data.answers[0].answer[question]);
      case "wrong": return said.some((one) => one !== "-" && one !== truth);
      case "false-yes": return said.some((one) => one === "1" && truth === "0");
      case "false-no": return said.some((one) => one === "0" && truth === "1");
      case "right": return said.some((one) => one === truth);
      case "unanswered": return said.some((one) => one === "-");
      case "flips": return arms.some((arm) => this.flipped(arm, question));
      default: return true;
    }
  }

  flipped(arm, question) {
    const own = this.data.answers[arm].answer[question];
    const pairs = this.twins[arm].get(question) || [];
    return own !== "-" && pairs.some((twin) => twin.answer !== "-" && twin.answer !== own);
  }

  /* What the search looks through, made at the first search. */
  haystack(question) {
    if (!this.texts) this.texts = new Array(this.data.rows.length);
    if (this.texts[question] === undefined) {
      const {data} = this;
      const parts = [data.rows[question], data.groups[data.group[question]]];
      data.answers.forEach((arm) => parts.push(data.texts[arm.reply[question]], this.reason(arm.reason[question])));
      const queries = new Set(data.answers.map((arm) => arm.query[question]).filter((query) => query >= 0));
      for (const query of queries) parts.push(...this.query(query).map((message) => message[2]));
      this.texts[question] = parts.join("\n").toLowerCase();
    }
    return this.texts[question];
  }

  reason(number) {
    return this.data.reasons[number];
  }

  query(number) {
    return this.data.queries[number];
  }

  name(question) {
    return this.data.rows[question] + (this.repeats ? ` · ${this.data.repeat[question] + 1}` : "");
  }

  spoken(arm, question) {
    const own = this.data.answers[arm].answer[question];
    const wrong = own !== "-" && own !== this.data.label[question] ? ", wrong" : "";
    return WORDS[own] + wrong + (this.flipped(arm, question) ? ", changes with the group" : "");
  }

  summary(question) {
    const said = this.data.answers.map((arm) => arm.answer[question]);
    const count = (one) => said.filter((own) => own === one).length;
    return `${count("1")} yes, ${count("0")} no, ${count("-")} none`;
  }

  /* The numbers of the rows that all filters leave. */
  filtered(state) {
    const {data} = this;
    const group = data.groups.indexOf(state.group);
    const words = state.q.toLowerCase().trim();
    const left = [];
    for (let question = 0; question < this.number; question++) {
      if (group >= 0 && data.group[question] !== group) continue;
      if (!this.wanted(question, state)) continue;
      if (words && !this.haystack(question).includes(words)) continue;
      left.push(question);
    }
    return left;
  }

  group(question) {
    return this.data.groups[this.data.group[question]];
  }

  truth(question) {
    return this.data.label[question];
  }
}

