// The leaderboard's tables: a click on a heading sorts, by the number that a cell
// begins with, or by its text; the first column stays in sight.
if (/leaderboard\.html$/.test(location.pathname)) {
  for (const table of document.querySelectorAll("table.docutils")) {
    table.classList.add("numbers");
    for (const cell of table.querySelectorAll("td")) {
      if (/^[-+]?\d/.test(cell.textContent.trim())) cell.style.whiteSpace = "nowrap";
    }
    const headings = [...table.querySelectorAll("thead th")];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.className = "sort";
      button.append(...(heading.querySelector("p") ?? heading).childNodes);
      heading.replaceChildren(button);
      button.onclick = () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((each) => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent.trim();
        const key = (row) => parseFloat(text(row));
        const order = (one, other) => {
          const [a, b] = [key(one), key(other)];
          if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1; // what is no number comes last, either way
          const sign = down ? -1 : 1;
          return sign * (isNaN(a) ? text(one).localeCompare(text(other)) : a - b);
        };
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort(order));
      };
    });
  }
}
