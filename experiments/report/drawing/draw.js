// What Vega needs of its surroundings, and the one function that the program calls.
globalThis.structuredClone = function clone(value) {
  if (Array.isArray(value)) return value.map(clone);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, clone(member)]));
};

globalThis.setTimeout = act => Promise.resolve().then(act);  // it waits for images, which are here already

// Widths of Helvetica's characters in thousandths of its size, from 32 to 126: without a canvas Vega would guess. Where
// there is no Helvetica, what stands for it may be wider.
const wider = 1.15;
const widths = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
  556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
  556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584];

function width(item, text) {
  let sum = 0;
  for (const c of String(text ?? '')) sum += widths[c.codePointAt(0) - 32] ?? 600;
  return sum * (item.fontSize || 11) / 1000 * wider * (item.fontWeight === 'bold' ? 1.08 : 1);
}

// The bytes of a PNG's chunk, and those of several numbers in four each.
const bytesOf = (...numbers) => numbers.flatMap(n => [n >>> 24, n >>> 16 & 255, n >>> 8 & 255, n & 255]);
function chunk(name, bytes) {
  const all = [...name].map(c => c.charCodeAt(0)).concat(bytes);
  let crc = ~0;
  for (const byte of all) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = crc >>> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return [...bytesOf(bytes.length), ...all, ...bytesOf(~crc)];
}

// Rows of cells as an image of a pixel each, for {"mark": "image", "url": "url"}: a matrix of marks would be megabytes.
// Colours are those of Vega's scale of type sqrt with this scheme and domain; null is transparent.
function picture({cells, scheme, domain}) {
  const width = Math.max(...cells.map(row => row.length));
  const index = vega.scale('sqrt')().domain(domain).range([1, 255]).clamp(true);
  const pixels = cells.flatMap(row =>
    [0, ...Array.from({length: width}, (_, i) => row[i] == null ? 0 : Math.round(index(row[i])))]);
  const colour = vega.scheme(scheme);
  const palette = Array.from({length: 255}, (_, i) => colour(i / 254).match(/\d+/g).map(Number)).flat();
  let a = 1, b = 0;
  for (const byte of pixels) a = (a + byte) % 65521, b = (b + a) % 65521;
  const size = pixels.length, stored = [1, size & 255, size >> 8, ~size & 255, ~size >> 8 & 255];
  const png = [137, 80, 78, 71, 13, 10, 26, 10, ...chunk('IHDR', [...bytesOf(width, cells.length), 8, 3, 0, 0, 0]),
    ...chunk('PLTE', [0, 0, 0, ...palette]), ...chunk('tRNS', [0]),
    ...chunk('IDAT', [0x78, 1, ...stored, ...pixels, ...bytesOf(b << 16 | a)]), ...chunk('IEND', [])];
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  let text = '';
  for (let i = 0; i < png.length; i += 3) {
    const bits = png[i] << 16 | png[i + 1] << 8 | png[i + 2];
    for (let digit = 0; digit < 4; ++digit) text += i + digit > png.length ? '=' : digits[bits >> 18 - 6 * digit & 63];
  }
  return 'data:image/png;base64,' + text;
}

// A warning means that the specification does not say what somebody thought it says; but a panel may have no intervals.
const strict = {
  level() { return this; },
  error(...words) { throw Error(words.join(' ')); },
  warn(...words) {
    if (!String(words[0]).startsWith('Infinite extent')) throw Error(words.join(' '));
    return this;
  },
  info() { return this; },
  debug() { return this; },
};

// By itself a drawing is dark on white, as paper is; on a page it has the page's colour of text.
const paper = '<style>svg.marks:root{color:#1f2328;background:#fff}</style>';

async function draw(name, text, style) {
  vega.textMetrics.width = width;
  const specification = JSON.parse(text);
  for (const row of specification.data.values.filter(row => row.cells)) {
    row.url = picture(row);
    delete row.cells;
  }
  const {spec} = vegaLite.compile(specification, {config: JSON.parse(style), logger: strict});
  const view = new vega.View(vega.parse(spec), {renderer: 'none', logger: strict});
  const svg = await view.toSVG();
  view.finalize();
  return svg.replace('>', '>' + paper).replace(/(id="|url\(#|href="#)(clip|gradient|pattern)/g, `$1${name}-$2`);
}
