// SPDX-License-Identifier: Apache-2.0
// Statements and expressions of a chat template (jinja2's parser.py): each function reads one, and returns what runs it
// in a scope. The program calls `read` once, and `write` for each chat.
'use strict';

function compiled(source) {
  const words = wordsOf(source);
  let at = 0, depth = 0;

  const is = (text, ahead = 0) => words[at + ahead]?.kind === 'word' && words[at + ahead].text === text;
  const here = (expected) => {
    line = words[at].line;
    fail(`'${is('{%') ? `{% ${words[at + 1].text}` : words[at].text}'`, `${expected}; Tare reads a part of Jinja`);
  };
  const take = (text) => is(text) && ++at > 0;
  const takeTag = (tag) => is('{%') && is(tag, 1) && (at += 2) > 0;
  const expect = (text) => take(text) || here(`'${text}'`);
  const end = (tag) => (takeTag(tag) || here(`{% ${tag} %}`)) && expect('%}');
  const name = () => is(words[at].text) && /^[A-Za-z_]/.test(words[at].text) ? words[at++].text : here('a name');
  // At the line where it stands; one level deeper.
  const placed = (run) => {
    const from = words[at].line;
    return (...given) => {
      line = from;
      return run(...given);
    };
  };
  const deeper = (read) => {
    if (++depth > kDeepest) here(`at most ${kDeepest} levels`);
    const run = read();
    --depth;
    return run;
  };

  // Up to the end of the template, or a tag that ends or divides a statement. What runs it returns 'break' or
  // 'continue' if it ended so.
  const body = () => deeper(() => {
    const parts = [];
    while (words[at].kind !== 'end') {
      if (words[at].kind === 'text') {
        const text = words[at++].text;
        parts.push((scope, out) => void out.push(text));
      } else if (take('{{')) {
        const value = expression();
        parts.push(placed((scope, out) => void out.push(shown(value(scope)))));
        expect('}}');
      } else if (/^(end.*|else|elif)$/.test(words[at + 1].text)) {
        break;
      } else {
        parts.push(statement());
      }
    }
    return (scope, out) => {
      for (const part of parts) {
        const flow = part(scope, out);
        if (flow) return flow;
      }
    };
  });
  const textOfBody = () => {
    const run = body();
    return (scope) => {
      const out = [];
      run(scope, out);
      return out.join('');
    };
  };

  const leave = (flow) => () => {
    expect('%}');
    return (scope) => scope.loop instanceof Map ? flow : fail(flow, 'a loop around it');
  };

  const tags = {
    if: () => {
      const branches = [];
      do {
        const condition = expression();
        expect('%}');
        branches.push([condition, body()]);
      } while (takeTag('elif'));
      if (takeTag('else') && expect('%}')) branches.push([() => true, body()]);
      end('endif');
      return (scope, out) => branches.find(([condition]) => truth(condition(scope)))?.[1](scope, out);
    },

    for: () => {
      const names = [name()];
      while (take(',')) names.push(name());
      expect('in');
      const all = or(), kept = take('if') ? expression() : () => true;
      expect('%}');
      const run = body(), otherwise = takeTag('else') && expect('%}') ? body() : () => undefined;
      end('endfor');
      const scopeOf = (scope, item) => {
        const values = names.length === 1 ? [item] : elements(item);
        if (values.length !== names.length) fail(`${values.length} values`, `one for each of ${names.join(', ')}`);
        return Object.assign(Object.create(scope), Object.fromEntries(names.map((one, i) => [one, values[i]])));
      };
      return placed((scope, out) => {
        const items = elements(all(scope)).filter((item) => truth(kept(scopeOf(scope, item)))), n = items.length;
        if (n === 0) return otherwise(scope, out);
        for (let i = 0; i < n; ++i) {
          const own = scopeOf(scope, items[i]);
          own.loop = new Map(Object.entries({
            index: i + 1, index0: i, first: i === 0, last: i === n - 1, length: n, revindex: n - i,
            revindex0: n - i - 1, previtem: items[i - 1], nextitem: items[i + 1],
          }));
          if (run(own, out) === 'break') break;
        }
      });
    },

    set: () => {
      const target = name(), key = take('.') ? name() : undefined, isText = !take('=');
      const value = isText ? expect('%}') && textOfBody() : expression();
      isText ? end('endset') : expect('%}');
      return placed((scope) => {
        if (key === undefined) {
          scope[target] = value(scope);
        } else {
          if (!(scope[target] instanceof Map)) fail(typeOf(scope[target]), `a namespace for ${target}.${key}`);
          scope[target].set(key, value(scope));
        }
      });
    },

    macro: () => {
      const called = name(), parameters = [];
      for (expect('('); !take(')'); is(')') || expect(','))
        parameters.push([name(), take('=') ? expression() : () => undefined]);
      expect('%}');
      const text = textOfBody();
      end('endmacro');
      return (scope) => {
        scope[called] = (given, named) => {
          const own = Object.create(scope), names = parameters.map(([one]) => one);
          if (given.length > names.length || Object.keys(named).some((one) => !names.includes(one)))
            fail(`other values for ${called}`, names.join(', '));
          parameters.forEach(([one, otherwise], i) => {
            own[one] = i < given.length ? given[i] : Object.hasOwn(named, one) ? named[one] : otherwise(own);
          });
          return text(own);
        };
      };
    },

    generation: () => {
      expect('%}');
      const run = body();
      end('endgeneration');
      return run;
    },
    break: leave('break'),
    continue: leave('continue'),
  };
  const statement = () => tags[Object.keys(tags).find(takeTag) ?? here(Object.keys(tags).join(', '))]();

  // ---- expressions, from the weakest binding on

  const expression = () => deeper(() => {
    const value = or();
    if (!take('if')) return value;
    const condition = or(), otherwise = take('else') ? expression() : () => undefined;
    return (scope) => truth(condition(scope)) ? value(scope) : otherwise(scope);
  });

  const either = (sign, operand, stops) => {
    let left = operand();
    while (take(sign)) {
      const a = left, b = operand();
      left = (scope) => {
        const value = a(scope);
        return truth(value) === stops ? value : b(scope);
      };
    }
    return left;
  };
  const or = () => either('or', and, true);
  const and = () => either('and', not, false);
  const negated = (value) => (scope) => !truth(value(scope));
  const not = () => take('not') ? negated(deeper(not)) : comparison();

  const binary = (sign, left, right) => {
    const run = placed(kOperators.get(sign));
    return (scope) => run(left(scope), right(scope));
  };
  const comparison = () => {
    const left = sums(), isNot = is('not') && is('in', 1) && take('not');
    const sign = ['==', '!=', '<=', '>=', '<', '>', 'in'].find((one) => take(one));
    if (!sign) return left;
    const value = binary(sign, left, sums());
    return isNot ? negated(value) : value;
  };
  const chain = (signs, operand) => {
    let left = operand();
    for (let sign; (sign = signs.find((one) => take(one)));) left = binary(sign, left, operand());
    return left;
  };
  const sums = () => chain(['+', '-'], joined);
  const joined = () => chain(['~'], products);
  const products = () => chain(['*', '//', '%'], filtered);

  const filtered = () => {
    let value = take('-') ? binary('-', () => 0, operand()) : operand();
    while (is('|') || is('is')) {
      const isFilter = take('|'), isNot = !isFilter && take('is') && take('not'), word = name();
      value = isFilter ? call((scope, given, named) => use(kFilters, 'filter', word, given, named), value)
                       : call((scope, given) => use(kTests, 'test', word, given, {}), value);
      if (isNot) value = negated(value);
    }
    return value;
  };

  // With the values in the parentheses that follow, if some do.
  const call = (run, of) => {
    const given = of ? [of] : [], named = [];
    if (take('(')) {
      for (; !take(')'); is(')') || expect(',')) {
        if (!is('=', 1)) {
          given.push(expression());
        } else {
          named.push([name(), expect('=') && expression()]);
        }
      }
    }
    const now = placed(run);
    return (scope) => now(scope, given.map((value) => value(scope)),
                          Object.fromEntries(named.map(([key, value]) => [key, value(scope)])));
  };

  // A value, with its members, slices and methods.
  const operand = () => {
    let value = primary();
    while (is('.') || is('[')) {
      const of = value;
      if (take('[')) {
        value = subscript(of);
        continue;
      }
      const word = take('.') && name();
      value = is('(') ? call((scope, given, named) => use(kMethods, 'method', word, given, named), of) :
                        placed((scope) => {
                          const from = of(scope);
                          if (isDictionary(from) && kDictionaryMethods.includes(word))
                            fail(`the method ${word}`, 'a call of it');
                          return member(from, word);
                        });
    }
    return value;
  };

  const subscript = (of) => {
    const places = [];
    do places.push(is(':') || is(']') ? () => null : expression());
    while (places.length < 3 && take(':'));
    expect(']');
    const run = placed(places.length === 1 ? member : slice);
    return (scope) => run(of(scope), ...places.map((place) => place(scope)));
  };

  const list = (values, close) => {
    for (; !take(close); is(close) || expect(',')) values.push(expression());
    return (scope) => values.map((value) => value(scope));
  };
  const dictionary = () => {
    const pairs = [];
    for (; !take('}'); is('}') || expect(',')) pairs.push([expression(), expect(':') && expression()]);
    return (scope) => Object.fromEntries(pairs.map(([key, value]) => [textOf(key(scope)), value(scope)]));
  };

  const primary = () => {
    const {kind, text} = words[at];
    if (kind === 'string') {
      let all = '';
      while (words[at].kind === 'string') all += words[at++].text;
      return () => all;
    }
    if (kind === 'word' && /^\d/.test(text)) return ++at && (() => wholeOf(Number(text)));
    if (take('(')) {
      const value = expression();
      return take(')') ? value : expect(',') && list([value], ')');  // a tuple is taken for a list
    }
    if (take('[')) return list([], ']');
    if (take('{')) return dictionary();
    const word = name(), constants = {true: true, True: true, false: false, False: false, none: null, None: null};
    if (Object.hasOwn(constants, word)) return () => constants[word];
    if (!is('(')) return (scope) => scope[word];
    return call((scope, given, named) => {
      if (typeof scope[word] === 'function') return scope[word](given, named);
      if (word === 'namespace' && given.length === 0) return new Map(Object.entries(named));
      return use(kFunctions, 'function', word, given, named);
    });
  };

  const run = body();
  return words[at].kind === 'end' ? run : here('an open tag before it');
}

let run;

async function read(source) { run = compiled(source); }

// names: JSON of an object.
async function write(names) {
  const out = [];
  run(Object.assign(Object.create(null), JSON.parse(names)), out);
  return out.join('');
}
