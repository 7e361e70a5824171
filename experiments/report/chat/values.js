// SPDX-License-Identifier: Apache-2.0
// Values of a chat template and what its operators, filters, methods, tests and functions do with them, as in Python.
'use strict';

function truth(value) {
  if (Array.isArray(value)) return value.length > 0;
  return isDictionary(value) ? Object.keys(value).length > 0 : Boolean(value);
}

function shown(value) {
  if (typeof value === 'function' || (typeof value === 'object' && value !== null))
    fail(typeOf(value), 'a text; try |tojson');
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return value === undefined ? '' : value === null ? 'None' : String(value);
}

// Native work on a text takes no step by itself: a turn for each eight characters.
function spent(text) {
  for (let left = text.length >> 3; left > 0; --left);
  return text;
}

function textOf(value) {
  return typeof value === 'string' ? spent(value) : fail(typeOf(value), 'a string');
}

function wholeOf(value) {
  return Number.isSafeInteger(value) ? value : fail(typeOf(value), 'a whole number');
}

// A text's characters, a dictionary's keys.
function elements(value) {
  if (value === undefined) return [];
  if (typeof value === 'string') return [...spent(value)];
  return Array.isArray(value) ? value : isDictionary(value) ? Object.keys(value) : fail(typeOf(value), 'a list');
}

function member(of, key) {
  if (of === undefined) fail(`${shown(key)} of what is undefined`, 'a value');
  if (of instanceof Map) return of.get(key);
  if (isDictionary(of)) return Object.hasOwn(of, key) ? of[key] : undefined;
  if (!Array.isArray(of) && typeof of !== 'string') return undefined;
  return Number.isInteger(key) ? elements(of).at(key) : undefined;
}

function equal(a, b) {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return Array.isArray(a) === Array.isArray(b) && keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}

function less(a, b) {
  if (typeof a !== typeof b || (typeof a !== 'number' && typeof a !== 'string'))
    fail(`${typeOf(a)} and ${typeOf(b)}`, 'two numbers or two strings');
  return a < b;
}

function sum(a, b) {
  if (typeof a === 'string' && typeof b === 'string') return a + b;
  return Array.isArray(a) && Array.isArray(b) ? [...a, ...b] : wholeOf(wholeOf(a) + wholeOf(b));
}

function isIn(a, b) {
  if (typeof b === 'string') return b.includes(textOf(a));
  return elements(b).some((element) => equal(element, a));
}

function slice(of, begin, end, step) {
  const all = elements(of), n = all.length, by = wholeOf(step ?? 1), part = [];
  if (by === 0) fail('a step of 0', 'another');
  const place = (at, otherwise) => {
    const given = at === null ? otherwise : wholeOf(at) < 0 ? at + n : at;
    return by > 0 ? Math.min(Math.max(given, 0), n) : Math.min(Math.max(given, -1), n - 1);
  };
  const last = place(end, by > 0 ? n : -1);
  for (let i = place(begin, by > 0 ? 0 : n - 1); by > 0 ? i < last : i > last; i += by) part.push(all[i]);
  return typeof of === 'string' ? part.join('') : part;
}

// json.dumps(value, ensure_ascii=False, indent=indent)
function dumped(value, indent, spaces = '\n') {
  if (value === undefined || value instanceof Map) fail(typeOf(value), 'a value');
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const isList = Array.isArray(value), inner = indent === undefined ? '' : spaces + ' '.repeat(wholeOf(indent));
  const parts = Object.keys(value).map(
      (key) => inner + (isList ? '' : `${JSON.stringify(key)}: `) + dumped(value[key], indent, inner));
  const text = parts.join(indent === undefined ? ', ' : ',') + (inner && parts.length > 0 ? spaces : '');
  return isList ? `[${text}]` : `{${text}}`;
}

function strip(text, characters, left, right) {
  const all = [...textOf(text)];
  const takes = (c) => characters === undefined ? kSpace.test(c) : textOf(characters).includes(c);
  let begin = 0, end = all.length;
  while (left && begin < end && takes(all[begin])) ++begin;
  while (right && begin < end && takes(all[end - 1])) --end;
  return all.slice(begin, end).join('');
}

function split(text, by, most = -1) {
  if (textOf(by) === '') fail("''", 'a string that is not empty');
  const parts = textOf(text).split(by);
  return most < 0 || parts.length <= most ? parts : [...parts.slice(0, most), parts.slice(most).join(by)];
}

function replaced(text, from, to, most = -1) {
  return split(text, from, wholeOf(most)).join(textOf(to));
}

function range(begin, end, step = 1) {
  const list = [];
  if (end === undefined) [begin, end] = [0, begin];
  if (wholeOf(step) === 0) fail('a step of 0', 'another');
  for (let i = wholeOf(begin); step > 0 ? i < wholeOf(end) : i > wholeOf(end); i += step) list.push(i);
  return list;
}

const entries = (of) => isDictionary(of) ? Object.entries(of) : fail(typeOf(of), 'a dictionary');
const capitalize = (text) => textOf(text).slice(0, 1).toUpperCase() + text.slice(1).toLowerCase();
const orDefault = (value, other = '', always = false) =>
    (truth(always) ? truth(value) : value !== undefined) ? value : other;

const kOperators = new Map(Object.entries({
  '+': sum, '-': (a, b) => wholeOf(wholeOf(a) - wholeOf(b)), '*': (a, b) => wholeOf(wholeOf(a) * wholeOf(b)),
  '//': (a, b) => wholeOf(Math.floor(wholeOf(a) / wholeOf(b))),
  '%': (a, b) => wholeOf((wholeOf(a) % wholeOf(b) + b) % b),
  '~': (a, b) => shown(a) + shown(b), '==': equal, '!=': (a, b) => !equal(a, b), '<': less, '>': (a, b) => less(b, a),
  '<=': (a, b) => !less(b, a), '>=': (a, b) => !less(a, b), in: isIn,
}));
const kFilters = new Map(Object.entries({
  capitalize, count: (of) => elements(of).length, d: orDefault, default: orDefault, first: (of) => elements(of)[0],
  items: entries, join: (of, by = '') => elements(of).map(shown).join(textOf(by)), last: (of) => elements(of).at(-1),
  length: (of) => elements(of).length, list: elements, lower: (text) => textOf(text).toLowerCase(), replace: replaced,
  selectattr: (of, key, test, value) =>
    test === 'equalto' ? elements(of).filter((one) => equal(member(one, key), value)) :
        fail(shown(test), "'equalto'"),
  string: shown, tojson: dumped, trim: (text, characters) => strip(text, characters, true, true),
  upper: (text) => textOf(text).toUpperCase(),
}));
const kMethods = new Map(Object.entries({
  capitalize, endswith: (text, end) => textOf(text).endsWith(textOf(end)),
  get: (of, key, other = null) =>
    !isDictionary(of) ? fail(typeOf(of), 'a dictionary') : Object.hasOwn(of, key) ? of[key] : other,
  items: entries, keys: (of) => entries(of).map(([key]) => key), lower: (text) => textOf(text).toLowerCase(),
  lstrip: (text, characters) => strip(text, characters, true, false), replace: replaced,
  rstrip: (text, characters) => strip(text, characters, false, true), split,
  startswith: (text, begin) => textOf(text).startsWith(textOf(begin)),
  strip: (text, characters) => strip(text, characters, true, true), upper: (text) => textOf(text).toUpperCase(),
  values: (of) => entries(of).map(([, value]) => value),
}));
const isSequence = (value) =>
    value === undefined || typeof value === 'string' || (typeof value === 'object' && value !== null);
const kTests = new Map(Object.entries({
  boolean: (value) => typeof value === 'boolean', defined: (value) => value !== undefined,
  false: (value) => value === false,
  iterable: isSequence, mapping: isDictionary, none: (value) => value === null,
  number: (value) => typeof value === 'number' || typeof value === 'boolean', sequence: isSequence,
  string: (value) => typeof value === 'string', true: (value) => value === true,
  undefined: (value) => value === undefined,
}));
const kDictionaryMethods = ['clear', 'copy', 'get', 'items', 'keys', 'pop', 'update', 'values'];
const kFunctions = new Map(Object.entries({
  range, raise_exception: (message) => { throw `line ${line}: the template refuses: ${shown(message)}`; },
}));
const kNamed = {tojson: ['indent'], default: ['default_value', 'boolean'], join: ['d']};  // parameters with names

// A filter, method, test or function of these tables, with the values in its parentheses.
function use(table, kind, word, given, named) {
  const run = table.get(word) ?? fail(`the ${kind} '${word}'`, `one of ${[...table.keys()].join(', ')}`);
  for (const [key, value] of Object.entries(named)) {
    const place = (kNamed[word] ?? []).indexOf(key);
    given[place < 0 ? fail(`${word}(${key}=)`, `no ${key}`) : place + 1] = value;
  }
  return run(...given);
}
