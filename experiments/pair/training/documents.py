# SPDX-License-Identifier: Apache-2.0
"""The documents that the pair is trained on. Each is a list of token ids and a weight for each id in the loss.

  text      prose as it is
  needle    prose with "The magic number of CITY is 1234." in it, and questions for some of the numbers
  labels    lines "word word -> A": a class is two key words, one of which is in the line; its letter is new in every
            document
  copy      prose, then a stretch of it once more

A weight also names its kind in the log: 1 text, 6 needle (the digits of an answer), 4 labels, 2 copy.
"""
import random

BOS = 1
SEED = 20261120

# until step, tokens a sequence, sequences a batch: 4,096 tokens a step throughout
PHASES = ((3500, 128, 32), (5300, 256, 16), (6000, 512, 8), (7100, 256, 16), (10**9, 512, 8))
COPY_FROM = 3200      # step from which copying and labels take the place of half the prose and needles
SECOND_RUN = 6000     # step where a second, shorter run begins on top of the first, with more needles


def mixture(step):
    """Shares of text; text and needle; text, needle and labels. The rest is copy."""
    if step < COPY_FROM:
        return 0.35, 0.65, 0.88
    if step < SECOND_RUN:
        return 0.22, 0.40, 0.65
    return 0.20, 0.80, 0.85


def needle_counts(length, step):
    """How many needles a document may have; what stands twice is twice as likely."""
    if length < 200:
        return 1, 2, 2, 3
    if length < 400:
        return (1, 2, 3, 4, 5) if step < SECOND_RUN else (2, 3, 4, 4, 5)
    return 1, 2, 2, 3, 4, 4, 6, 8


class Documents:
    """Batches of documents. The same step gives the same batch, whatever is trained on it."""

    def __init__(self, tokenizer, text, cities, words):
        self.encode = tokenizer.encode
        self.newline = tokenizer.piece_to_id("<0x0A>")
        self.text = text      # ids of all prose, one after another
        self.cities = cities
        self.words = words

    def prose(self, start, length):
        return self.text[start:start + length].astype(int).tolist()

    def text_document(self, rng, length):
        ids = [BOS] + self.prose(rng.randrange(len(self.text) - length), length)
        return ids, [1.0] * len(ids)

    def needle_document(self, rng, length, step):
        count = rng.choice(needle_counts(length, step))
        questions = min(count, rng.choice((1, 2, 2, 4)))
        cities = rng.sample(self.cities, count)
        numbers = ["".join(rng.choice("0123456789") for _ in range(4)) for _ in cities]
        needles = [self.encode(f"The magic number of {city} is {number}.") for city, number in zip(cities, numbers)]

        tail, tail_weights = [], []
        for i in rng.sample(range(count), questions):
            question = self.encode(f"What is the magic number of {cities[i]}? It is")
            answer = self.encode(numbers[i])      # the word mark, which weighs nothing, and four digits
            tail += [self.newline] + question + answer
            tail_weights += [0.3] * (len(question) + 1) + [0.0 if len(answer) == 5 else 6.0] + [6.0] * (len(answer) - 1)

        room = length + 1 - 1 - len(tail) - sum(map(len, needles))
        if room < 20:
            return self.needle_document(rng, length, step)
        room = rng.randint(20, room) if rng.random() < 0.4 else room
        hay = self.prose(rng.randrange(len(self.text) - room), room)
        ids, last = [BOS], 0
        for cut, needle in zip(sorted(rng.randrange(room + 1) for _ in range(count)), needles):
            ids += hay[last:cut] + needle
            last = cut
        ids += hay[last:]
        return ids + tail, [0.5] * len(ids) + tail_weights

    def labels_document(self, rng, length):
        classes = rng.choice((2, 2, 3, 4) if length < 200 else (2, 3, 4, 4, 6))
        pool = rng.sample(self.words, 2 * classes + 40)
        keys = [pool[2 * i:2 * i + 2] for i in range(classes)]
        noise = pool[2 * classes:]
        labels = rng.sample("ABCDEFGH", classes)
        ids, weights, seen = [BOS], [0.0], set()
        while len(ids) < length + 1:
            which = rng.randrange(classes)
            key = rng.choice(keys[which])
            pair = [key, rng.choice(noise)]
            rng.shuffle(pair)
            line, label = self.encode(f"{pair[0]} {pair[1]} ->"), self.encode(labels[which])
            ids += line + label + [self.newline]
            # A key word's first label cannot be known, so it weighs nothing.
            weights += [0.0] * len(line) + [4.0 if key in seen else 0.0] * len(label) + [0.0]
            seen.add(key)
        return ids, weights

    def copy_document(self, rng, length, longest):
        stretch = rng.randint(12, longest)
        room = length - 1 - stretch
        passage = self.prose(rng.randrange(len(self.text) - length), room)
        begin = rng.randrange(room - stretch)
        # Four tokens tell which stretch it is; from there on it can be known.
        weights = [0.0] + [0.3] * (room + 1) + [0.0] * 4 + [2.0] * (stretch - 4)
        return [BOS] + passage + [self.newline] + passage[begin:begin + stretch], weights

    def document(self, rng, length, step):
        draw = rng.random()
        text, needle, labels = mixture(step)
        if draw < text:
            return self.text_document(rng, length)
        if draw < needle:
            return self.needle_document(rng, length, step)
        if draw < labels:
            return self.labels_document(rng, length)
        return self.copy_document(rng, length, length // (4 if step < COPY_FROM else 3))

    def batch(self, step):
        """ids and weights, lists of [sequences][length + 1], padded with id 0 of weight 0."""
        length, sequences = next((length, sequences) for until, length, sequences in PHASES if step < until)
        rng = random.Random(SEED * 1_000_003 + step)
        ids, weights = [], []
        for _ in range(sequences):
            document, document_weights = self.document(rng, length, step)
            document, document_weights = document[:length + 1], document_weights[:length + 1]
            padding = length + 1 - len(document)
            ids.append(document + [0] * padding)
            weights.append(document_weights + [0.0] * padding)
        return ids, weights
