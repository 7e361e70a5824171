// What Vega needs of its surroundings, and the one function that the program calls.
globalThis.structuredClone = function clone(value) {
  if (Array.isArray(value)) return value.map(clone);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, clone(member)]));
};

// Widths of Helvetica's characters in thousandths of its size, from 32 to 126: without a canvas Vega would guess. Where
// there is no Helvetica, what stands for it may be wider.
const wider = 1.15;
const widths = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
  556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
  556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584];

function prepare() {
  vega.textMetrics.width = (item, text) => {
    let width = 0;
    for (const c of String(text ?? '')) width += widths[c.codePointAt(0) - 32] ?? 600;
    return width * (item.fontSize || 11) / 1000 * wider * (item.fontWeight === 'bold' ? 1.08 : 1);
  };
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
  const {spec} = vegaLite.compile(JSON.parse(text), {config: JSON.parse(style), logger: strict});
  const view = new vega.View(vega.parse(spec), {renderer: 'none', logger: strict});
  const svg = await view.toSVG();
  view.finalize();
  return svg.replace('>', '>' + paper).replace(/(id="|url\(#|href="#)(clip|gradient|pattern)/g, `$1${name}-$2`);
}
