document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending", column = head.cellIndex;
  const key = (row) => { const cell = row.cells[column]; return cell.dataset.value ?? cell.textContent.trim(); };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const numbers = !isNaN(a) && !isNaN(b);
    return (up ? 1 : -1) * (numbers ? a - b : a.localeCompare(b));
  };
  head.parentElement.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  [...body.rows].sort((a, b) => compare(key(a), key(b))).forEach((row) => body.append(row));
}));
