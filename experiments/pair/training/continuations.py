#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Multiple-choice continuations of prose, one JSON object a line in HellaSwag's fields.

The context is up to five sentences of a paragraph (35 words at least), the right ending its next sentence, and the
three wrong ones are sentences of like length (within two words) from elsewhere in the same text.
"""
import argparse
import json
import random
import re


def is_ending(sentence):
    return 8 <= len(sentence.split()) <= 32


def make_items(text, count, rng):
    split = [re.split(r'(?<=[.!?])["\']? (?=["\'A-Z])', line) for line in text.split("\n")]
    candidates = [s.strip() for sentences in split for s in sentences if is_ending(s)]
    long_enough = [i for i, sentences in enumerate(split) if len(sentences) >= 4]

    items, seen = [], set()
    while len(items) < count:
        i = rng.choice(long_enough)
        sentences = [s.strip() for s in split[i]]
        k = rng.randrange(2, len(sentences))
        ending = sentences[k]
        if not is_ending(ending) or (i, k) in seen:
            continue
        context = " ".join(sentences[max(0, k - 5):k])
        if len(context.split()) < 35:
            continue
        words = len(ending.split())
        endings = [s for s in rng.sample(candidates, 400)
                   if abs(len(s.split()) - words) <= 2 and s != ending and s not in context][:3]
        if len(endings) < 3:
            continue
        seen.add((i, k))
        label = rng.randrange(4)
        endings.insert(label, ending)
        items.append({"ind": len(items), "ctx": context, "endings": endings, "label": label})
    return items


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="prose, one paragraph a line, that the models were not trained on")
    parser.add_argument("out", help="JSON lines to write")
    parser.add_argument("--items", type=int, default=2000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    with open(args.text) as file:
        items = make_items(file.read(), args.items, random.Random(args.seed))
    with open(args.out, "w") as file:
        for item in items:
            file.write(json.dumps(item) + "\n")
    words = sum(len(item["ctx"].split()) for item in items)
    print(f"{len(items)} items, {words / len(items):.1f} words of context each")


if __name__ == "__main__":
    main()
