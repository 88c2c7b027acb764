/* The list of rows with its filters, keys and links. It draws only what is in view; its data is parsed when it
   comes near the window, or a link asks for it. */
const AHEAD = 6; // rows drawn above and below those in view
const MANY_ARMS = 6; // more do not fit beside each other
const roots = [...document.querySelectorAll("div.rows")];
const browsers = new Map();
const find = (root, name) => root.querySelector(name);

class Browser {
  constructor(root) {
    this.root = root;
    const block = find(root, "script");
    this.rows = new Rows(JSON.parse(block.textContent));
    this.drawn = new Drawn(this.rows);
    block.remove();
    this.list = find(root, ".rows-list");
    this.one = find(root, ".rows-one");
    this.space = make("div");
    this.space.setAttribute("role", "none");
    this.list.append(this.space);
    this.fields = Object.fromEntries([...root.querySelectorAll("[data-filter]")].map((e) => [e.dataset.filter, e]));
    this.state = {show: ALL, arm: "", group: "", q: ""};
    this.items = new Map(); // place in the list -> its element
    this.selected = 0;
    this.fill();
    this.listen();
    for (const part of root.querySelectorAll("[hidden]")) if (part !== this.one) part.hidden = false;
    this.fields.arm.parentElement.hidden = this.rows.data.arms.length < 2;
    this.apply();
  }

  fill() {
    const {arms, groups} = this.rows.data;
    const several = arms.length > 1;
    const options = [[ALL, "all rows"], several && ["disagree", "arms disagree"], ["wrong", "wrong answers"],
      ["false-yes", "wrongly yes"], ["false-no", "wrongly no"], ["right", "right answers"],
      ["unanswered", "refused or no answer"], this.rows.anyFlip && ["flips", "changed with the group"]];
    this.options("show", options.filter(Boolean));
    this.options("arm", [["", "any"], ...arms.map((name) => [name, name])]);
    this.options("group", [["", "all"], ...groups.map((name) => [name, name])]);
    this.root.style.setProperty("--arms", arms.length > MANY_ARMS ? 1 : arms.length);
    const head = find(this.root, ".rows-head");
    head.append(...[this.rows.repeats ? "row · repeat" : "row", "group", "truth", ...this.columns()].map((text) => make("span", text)));
  }

  columns() {
    const {arms} = this.rows.data;
    return arms.length > MANY_ARMS ? ["answers"] : arms;
  }

  options(name, pairs) {
    for (const [value, text] of pairs) {
      const option = make("option", text);
      option.value = value;
      this.fields[name].append(option);
    }
  }

  listen() {
    for (const [name, field] of Object.entries(this.fields)) {
      field.addEventListener(name === "q" ? "input" : "change", () => {
        this.state[name] = field.value;
        this.apply();
        this.remember();
      });
    }
    this.list.addEventListener("scroll", () => this.draw(), {passive: true});
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest(".rows-item");
      if (item) this.choose(Number(item.dataset.place), true);
    });
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.isComposing || this.list.hidden || event.target.matches("select")) return;
      event.preventDefault(); // a search field would empty itself
      this.list.focus();
    });
    new ResizeObserver(() => this.draw()).observe(this.list);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / this.height()) - 1);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) {
      this.choose(this.selected + steps[event.key]);
    } else if (event.key === "Enter") {
      this.one.focus();
    } else if (event.key === "/") {
      this.fields.q.focus();
    } else return;
    event.preventDefault();
  }

  apply() {
    this.shown = this.rows.filtered(this.state);
    const count = this.shown.length.toLocaleString("en");
    find(this.root, ".rows-count").textContent = `${count} of ${this.rows.number.toLocaleString("en")} rows`;
    this.list.hidden = !this.shown.length;
    this.reset();
    this.list.scrollTop = 0;
    this.selected = 0;
    this.draw();
  }

  reset() {
    for (const item of this.items.values()) item.remove();
    this.items.clear();
  }

  height() {
    return parseFloat(getComputedStyle(this.root).getPropertyValue("--row"))
      * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  draw() {
    const height = this.height();
    if (height !== this.drawnHeight) {
      this.reset();
      this.drawnHeight = height;
    }
    this.space.style.height = `${this.shown.length * height}px`;
    const first = Math.max(0, Math.floor(this.list.scrollTop / height) - AHEAD);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / height) + AHEAD);
    for (const [place, item] of this.items) {
      if (place < first || place >= last) {
        item.remove();
        this.items.delete(place);
      }
    }
    for (let place = first; place < last; place++) {
      if (!this.items.has(place)) this.items.set(place, this.item(place, height));
    }
    for (const [place, item] of this.items) item.setAttribute("aria-selected", String(place === this.selected));
    const current = this.items.get(this.selected);
    if (current) this.list.setAttribute("aria-activedescendant", current.id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  item(place, height) {
    const {rows} = this, {arms} = rows.data, question = this.shown[place], truth = WORDS[rows.truth(question)];
    const item = make("div", undefined, "rows-item");
    item.id = `${this.root.id}-${place}`;
    item.dataset.place = place;
    item.setAttribute("role", "option");
    item.setAttribute("aria-posinset", place + 1);
    item.setAttribute("aria-setsize", this.shown.length);
    item.style.transform = `translateY(${place * height}px)`;
    item.append(make("span", rows.name(question)), make("span", rows.group(question)),
      make("span", truth, CLASSES[rows.truth(question)]));
    if (arms.length > MANY_ARMS) item.append(make("span", rows.summary(question), "arms"));
    else item.append(this.answers(question));
    const said = arms.map((name, arm) => `${name}: ${rows.spoken(arm, question)}`).join("; ");
    item.setAttribute("aria-label", `${rows.name(question)}, ${rows.group(question)}, truth ${truth}; ${said}`);
    this.list.append(item);
    return item;
  }

  /* Every arm's answer; where there is no room for columns, CSS puts the arm's name before it. */
  answers(question) {
    const made = make("div", undefined, "arms");
    this.rows.data.arms.forEach((name, arm) => {
      const cell = make("span");
      cell.dataset.arm = name;
      cell.append(this.drawn.answer(arm, question));
      made.append(cell);
    });
    return made;
  }

  choose(place, byHand) {
    if (!this.shown.length) return;
    this.selected = Math.min(Math.max(place, 0), this.shown.length - 1);
    const height = this.height(), top = this.selected * height, list = this.list;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + height > list.scrollTop + list.clientHeight) list.scrollTop = top + height - list.clientHeight;
    this.draw();
    const question = this.shown[this.selected];
    this.one.replaceChildren(...this.drawn.detail(question, this.address(question)));
    this.one.hidden = false;
    this.remember();
    if (byHand && this.one.getBoundingClientRect().top > innerHeight - 60) this.one.scrollIntoView({block: "nearest"});
  }

  address(question) {
    const {data, repeats} = this.rows;
    const said = new URLSearchParams({row: data.rows[question]});
    if (repeats) said.set("repeat", data.repeat[question] + 1);
    for (const [name, value] of Object.entries(this.state)) if (value && value !== ALL) said.set(name, value);
    if (roots.length > 1) said.set("in", this.root.id);
    return `#${said}`;
  }

  remember() {
    if (!this.shown.length) return;
    try {
      history.replaceState(null, "", this.address(this.shown[this.selected]));
    } catch { /* a page that may not say where it is */ }
  }

  take(said) {
    for (const [name, field] of Object.entries(this.fields)) {
      field.value = said.get(name) || (name === "show" ? ALL : "");
      if (field.selectedIndex === -1) field.selectedIndex = 0;
      this.state[name] = field.value;
    }
    this.apply();
  }

  /* To a link's row. Filters that hide it are lifted; never is another row shown in its place. */
  go(said) {
    this.take(said);
    const {data, repeats} = this.rows, row = said.get("row"), repeat = Number(said.get("repeat") || 1) - 1;
    const meant = (question) => data.rows[question] === row && (!repeats || data.repeat[question] === repeat);
    if (!this.shown.some(meant) && data.rows.some((_, question) => meant(question))) this.take(new URLSearchParams());
    const place = this.shown.findIndex(meant);
    if (place >= 0) this.choose(place);
    else if (row !== null) this.missing(row, said.get("repeat"));
    this.root.closest("details").open = true;
    this.root.scrollIntoView();
  }

  missing(row, repeat) {
    const name = row + (repeat ? ` · ${repeat}` : "");
    this.one.replaceChildren(make("p", `No row of this table is called ${name.slice(0, 200)}`));
    this.one.hidden = false;
  }
}

const open = (root) => {
  if (!browsers.has(root)) browsers.set(root, new Browser(root));
  return browsers.get(root);
};

const follow = () => {
  if (!location.hash.includes("=")) return;
  const said = new URLSearchParams(location.hash.slice(1));
  const root = document.getElementById(said.get("in")) || roots[0];
  if (root && roots.includes(root)) open(root).go(said);
};

const near = new IntersectionObserver((seen) => {
  for (const one of seen) {
    if (!one.isIntersecting) continue;
    near.unobserve(one.target);
    open(one.target);
  }
}, {rootMargin: "600px"});
for (const root of roots) near.observe(root);
addEventListener("hashchange", follow);
follow();
