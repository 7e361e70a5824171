#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Multiple choice that only attention to the context can answer, one JSON object a line in HellaSwag's fields.

The context is prose with NEEDLES sentences "The magic number of CITY is 1234." in it and the question for one of them;
the endings are the needles' numbers, filled up to four with numbers that stand nowhere. `depth` is where the asked
needle stands, 0 to 1.
"""
import argparse
import json
import pathlib
import random

LONGEST_CONTEXT = 1600  # characters: context, question and ending fit the 512 tokens that the models were trained on


def make_item(index, words, cities, needles, longest, rng):
    """One item, or None where the context came out too long."""
    names = rng.sample(cities, needles)
    numbers = [str(x) for x in rng.sample(range(1000, 10000), max(4, needles))]
    asked = rng.randrange(needles)

    length = rng.randint(longest // 3, longest)
    start = rng.randrange(len(words) - length)
    prose = words[start:start + length]
    cuts = sorted((rng.randrange(length + 1), j) for j in range(needles))
    parts, last = [], 0
    for at, j in cuts:
        parts += prose[last:at] + [f"The magic number of {names[j]} is {numbers[j]}."]
        last = at
    context = " ".join(parts + prose[last:])
    if len(context) > LONGEST_CONTEXT:
        return None

    endings = [numbers[asked]] + rng.sample([x for j, x in enumerate(numbers) if j != asked], 3)
    rng.shuffle(endings)
    return {
        "ind": index,
        "ctx": f"{context}\n What is the magic number of {names[asked]}? It is",
        "endings": endings,
        "label": endings.index(numbers[asked]),
        "depth": round(next(at for at, j in cuts if j == asked) / length, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, help="prose that the models were not trained on")
    parser.add_argument("out", type=pathlib.Path, help="JSON lines to write")
    parser.add_argument("--needles", type=int, default=1, help="in each context (default: %(default)s)")
    parser.add_argument("--items", type=int, default=1200, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", type=int, default=210,
                        help="of prose at most; a third of it at least (default: %(default)s)")
    parser.add_argument("--cities", type=pathlib.Path, default=pathlib.Path(__file__).with_name("cities.txt"))
    args = parser.parse_args()

    rng = random.Random(args.seed)
    words, cities = args.text.read_text().split(), args.cities.read_text().split()
    done = 0
    with args.out.open("w") as file:
        while done < args.items:
            item = make_item(done, words, cities, args.needles, args.words, rng)
            if item is None:
                continue
            file.write(json.dumps(item) + "\n")
            done += 1
    print(f"{done} items")


if __name__ == "__main__":
    main()
