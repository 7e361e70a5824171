'use strict';
// Sorting, downloads and what is under the pointer. Without any of it the page has everything too.

const valueOf = cell => cell.dataset.number === undefined ? cell.textContent : Number(cell.dataset.number);

function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return (isNaN(a) ? Infinity : a) - (isNaN(b) ? Infinity : b);
  return String(a).localeCompare(String(b));
}

function sortBy(heading) {
  const row = heading.parentElement, body = row.closest('table').tBodies[0];
  const index = [...row.children].indexOf(heading);
  const rising = heading.getAttribute('aria-sort') !== 'ascending';
  for (const other of row.children) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
  const sorted = [...body.rows].map(r => [valueOf(r.cells[index]), r]).sort(([a], [b]) => rising ? compare(a, b) : compare(b, a));
  body.append(...sorted.map(([, r]) => r));
}

function csvOf(table) {
  const field = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  return [...table.rows].map(row => [...row.cells].map(cell => field(cell.textContent)).join(',') + '\n').join('');
}

function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// Three pixels for each of the drawing's, on white, for its text is black outside the page.
function savePng(name, svg) {
  const image = new Image(), {width, height} = svg.viewBox.baseVal;
  image.addEventListener('load', () => {
    const canvas = Object.assign(document.createElement('canvas'), {width: 3 * width, height: 3 * height});
    const context = canvas.getContext('2d');
    context.fillStyle = 'white';
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => save(name, 'image/png', blob));
  });
  image.src = `data:image/svg+xml,${encodeURIComponent(svg.outerHTML)}`;
}

for (const figure of document.querySelectorAll('figure')) {
  const actions = figure.querySelector('.actions'), table = figure.querySelector('table');
  const offer = (label, act) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = label;
    button.addEventListener('click', act);
    actions.append(button);
  };
  offer('Download CSV', () => save(`${figure.id}.csv`, 'text/csv', csvOf(table)));
  offer('Download SVG', () => save(`${figure.id}.svg`, 'image/svg+xml', figure.querySelector('svg').outerHTML));
  offer('Download PNG', () => savePng(`${figure.id}.png`, figure.querySelector('svg')));
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = heading.textContent;
    button.addEventListener('click', () => sortBy(heading));
    heading.replaceChildren(button);
  }
}

// Vega says of each mark what it shows.
const tip = document.createElement('div');
tip.id = 'tip';
tip.hidden = true;
document.body.append(tip);
document.addEventListener('pointermove', event => {
  const mark = event.target.closest?.('.drawing [aria-label][role="graphics-symbol"]');
  const text = mark?.getAttribute('aria-label') ?? '';
  tip.hidden = !text.includes(': ');
  if (tip.hidden) return;
  tip.textContent = text.replaceAll('; ', '\n');
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4)}px`;
});
