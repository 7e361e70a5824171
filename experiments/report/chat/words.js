// SPDX-License-Identifier: Apache-2.0
// Chat templates: the part of jinja2 3.1 that they use, in the environment of transformers' apply_chat_template
// (trim_blocks, lstrip_blocks, loopcontrols, its tojson). A template becomes functions of a scope; what Jinja has and
// this file does not is an error with the template's line, of tags where they stand and of filters where they are used.
// undefined is Jinja's undefined, null its none; a Map is a namespace, an object a dictionary. The interpreter that
// runs this bounds memory and time.
'use strict';

const kDeepest = 50;  // levels of tags and parentheses; published templates have up to 20
const kSpace = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;  // str.isspace()
const kWord = /'(?:[^'\\]|\\[^])*'|"(?:[^"\\]|\\[^])*"|[A-Za-z_]\w*|\d+|[=!<>]=|\/\/|[-+*%~|.,:()[\]{}<>=]/y;
const kEscapes = {n: '\n', t: '\t', r: '\r', '\\': '\\', "'": "'", '"': '"'};

let line = 1;  // of the template, that is read or runs

const fail = (got, expected) => { throw `line ${line}: got ${got}, expected ${expected}`; };
const isDictionary = (value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Map);
const typeOf = (value) =>
    value === undefined ? 'undefined' : value === null ? 'none' : Array.isArray(value) ? 'a list' :
    isDictionary(value) ? 'a dictionary' : value instanceof Map ? 'a namespace' : `a ${typeof value}`;

function stringOf(word) {
  return word.slice(1, -1).replace(
      /\\([^])/g, (all, c) => kEscapes[c] ?? fail(all, 'an escape of n, t, r, \\ or quotes'));
}

// [{kind: 'text', 'string', 'word' or 'end', text, line}]; signs are words.
function wordsOf(source) {
  source = source.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  const words = [];
  let at = 0;
  line = 1;
  const skip = (end) => {
    for (; at < end; ++at) line += source[at] === '\n' ? 1 : 0;
  };
  const add = (kind, text, end) => {
    words.push({kind, text, line});
    skip(end);
  };
  const isSpace = () => at < source.length && source[at].trim() === '';
  // After the `sign` and the two characters that end a tag.
  const end = (sign, trims) => {
    skip(at + 2);
    while (sign === '-' && isSpace()) skip(at + 1);
    if (sign === '' && trims && source[at] === '\n') skip(at + 1);
  };
  while (at < source.length) {
    const tag = /\{[{%#]/g;
    tag.lastIndex = at;
    const found = tag.exec(source), open = found ? found.index : source.length;
    let text = source.slice(at, open);
    const sign = source[open + 2], begins = text.lastIndexOf('\n') + 1;
    if (found && sign === '-') {
      text = strip(text, undefined, false, true);
    } else if (found && sign !== '+' && found[0] !== '{{' && !text.slice(begins).trim() &&
               (begins > 0 || at === 0 || source[at - 1] === '\n')) {
      text = text.slice(0, begins);
    }
    if (text) words.push({kind: 'text', text, line});
    skip(open);
    if (!found) break;
    if (found[0] === '{#') {
      const close = source.indexOf('#}', at + 2), last = source[close - 1];
      if (close < 0) fail('{#', '#} after it');
      skip(close);
      end(last === '-' || last === '+' ? last : '', true);
      continue;
    }
    const isBlock = found[0] === '{%', close = isBlock ? '%}' : '}}';
    add('word', found[0], at + 2);
    if (source[at] === '-' || source[at] === '+') skip(at + 1);
    for (let depth = 0;;) {
      while (isSpace()) skip(at + 1);
      const sign = depth > 0                               ? null :
          source.startsWith(close, at)                     ? '' :
          /[-+]/.test(source[at]) && source.startsWith(close, at + 1) ? source[at] : null;
      if (sign !== null) {
        words.push({kind: 'word', text: close, line});
        skip(at + sign.length);
        end(sign, isBlock);
        break;
      }
      kWord.lastIndex = at;
      const word = kWord.exec(source)?.[0] ?? fail(`'${source.slice(at, at + 1)}'`, `a word or ${close}`);
      depth += '([{'.includes(word) ? 1 : ')]}'.includes(word) ? -1 : 0;
      const quoted = word[0] === "'" || word[0] === '"';
      add(quoted ? 'string' : 'word', quoted ? stringOf(word) : word, at + word.length);
    }
  }
  return [...words, {kind: 'end', text: 'the end', line}];
}
