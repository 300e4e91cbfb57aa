// Sorting and filtering of tables, and the choice of theme. Without scripting the page says the same, in the order it was
// written.
(function () {
  'use strict';
  const text = JSON.parse(document.getElementById('report-data').textContent).text;

  // Numbers by their full value, which `data-v` holds; empty cells last in either direction.
  function compare(a, b, column, sign) {
    const left = a.cells[column];
    const right = b.cells[column];
    const x = left.dataset.v === undefined ? left.textContent.trim() : Number(left.dataset.v);
    const y = right.dataset.v === undefined ? right.textContent.trim() : Number(right.dataset.v);
    const emptyX = x === '' || x === '–';
    const emptyY = y === '' || y === '–';
    if (emptyX || emptyY) return emptyX - emptyY;
    if (typeof x === 'number' && typeof y === 'number') return sign * (x - y);
    return sign * String(x).localeCompare(String(y), undefined, { numeric: true });
  }

  function sortBy(table, th) {
    const ascending = th.getAttribute('aria-sort') !== 'ascending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    rows.sort((a, b) => compare(a, b, th.cellIndex, ascending ? 1 : -1));
    body.append(...rows);
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    for (const th of table.tHead.rows[0].cells) {
      const button = document.createElement('button');
      button.type = 'button';
      button.title = text.sort;
      button.append(...th.childNodes);
      th.append(button);
      button.addEventListener('click', () => sortBy(table, th));
    }
    if (table.tBodies[0].rows.length < 16 || table.closest('figure')) continue;
    const input = document.createElement('input');
    input.type = 'search';
    input.className = 'filter';
    input.placeholder = text.filter;
    input.setAttribute('aria-label', text.filter);
    table.closest('.table-wrap').before(input);
    input.addEventListener('input', () => {
      const words = input.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const content = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => content.includes(word));
      }
    });
  }

  const root = document.documentElement;
  const button = document.getElementById('theme');
  button.hidden = false;
  button.addEventListener('click', () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });
})();
