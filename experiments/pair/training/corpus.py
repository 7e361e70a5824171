#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cleans novels into one paragraph a line and splits them: OUT/train.txt, and OUT/heldout.txt that no model may train
on.

NOVELS holds one plain-text file a novel, NAME.txt, as Project Gutenberg gives them: what stands outside the "START OF"
and "END OF" lines is dropped, line breaks inside a paragraph become spaces, curly quotes and dashes become plain ones.
The last 4 % of each novel, and all of the held-out one, go to heldout.txt.
"""
import argparse
import pathlib
import re

PLAIN = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2014": "--", "_": ""})
TRAIN_SHARE = 0.96


def read_text(path):
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")


def paragraphs(text):
    """The novel's paragraphs, without the publisher's header and footer, each on one line."""
    start = re.search(r"\*\*\* ?START OF.*?\*\*\*", text, re.S)
    end = re.search(r"\*\*\* ?END OF|End of (the )?Project Gutenberg", text)
    text = text[start.end() if start else 0: end.start() if end else len(text)].translate(PLAIN)
    lines = [re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text)]
    return [line for line in lines if len(line) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("novels", type=pathlib.Path, help="folder of NAME.txt")
    parser.add_argument("out", type=pathlib.Path, help="folder for train.txt and heldout.txt")
    parser.add_argument("--hold-out", default="emma", metavar="NAME",
                        help="the novel to hold out whole (default: %(default)s)")
    args = parser.parse_args()

    files = sorted(args.novels.glob("*.txt"))
    if not files:
        parser.error(f"{args.novels}: got no *.txt there, expected one file a novel")
    train, heldout = [], []
    for path in files:
        lines = paragraphs(read_text(path))
        cut = 0 if path.stem == args.hold_out else int(len(lines) * TRAIN_SHARE)
        train += lines[:cut]
        heldout += lines[cut:]
        print(f"{path.stem}: {len(lines)} paragraphs, {sum(map(len, lines))} characters")

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "train.txt").write_text("\n".join(train) + "\n")
    # Training encodes line by line, so that a paragraph's first word is a word of its own. A space before it keeps that
    # true of a text that is encoded whole.
    (args.out / "heldout.txt").write_text("\n ".join(heldout) + "\n")
    print(f"train.txt: {sum(map(len, train))} characters; heldout.txt: {sum(map(len, heldout))}")


if __name__ == "__main__":
    main()
