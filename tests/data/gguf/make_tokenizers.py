# SPDX-License-Identifier: Apache-2.0
"""Makes the tokenizers of this folder again, from the root of the tree:

    python3 tests/data/gguf/make_tokenizers.py

Needs gguf, sentencepiece and tokenizers. Each is a GGUF file without tensors, and NAME.json the ids that the source's
own library gives for texts. The steps before the model are those of the published tokenizers that llama.cpp calls
by this name.
"""
import json
import pathlib

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
TEXTS = ["Hello, world! It's 12345 o'clock; we'RE late, THEY'LL wait.", "", " ", "  two  spaces\n\n\nand lines \n end  ",
         "tab\tand\r\nreturn", "na\u00efve cafe\u0301 \u5317\u4eac \U0001f680\U0001f9ea \u0e01\u0e32\u0e23 \u0430\u0431\u0432 \u0967\u0968",
         "x=3.14159e-10; y[42]+=7 // 1,000,000", "<|end|>after<|end|> <s> </s>", "a\u2581b \u00a0c\u200bd"]
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"


def split(digits):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS + digits + REST), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def cased(digits, suffix):
    """Of GPT-4o and of Mistral's Tekken."""
    capitals, small = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    word = r"[^\r\n\p{L}\p{N}]?"
    pattern = (f"{word}{capitals}*{small}+{suffix}|{word}{capitals}+{small}*{suffix}|" + digits +
               r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
KINDS = {
    "llama-bpe": (split(r"\p{N}{1,3}"), None, True),
    "qwen2": (split(r"\p{N}"), normalizers.NFC(), False),
    "dbrx": (split(r"\p{N}{1,3}"), None, False),
    "gpt-2": (BYTES, None, False),
    "olmo": (BYTES, normalizers.NFC(), False),
    "gpt-4o": (cased(r"\p{N}{1,3}", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"), None, False),
    "tekken": (cased(r"\p{N}", ""), None, True),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]), None, False),
}


def save(name, writer, encode):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    expected = [{"text": text, "ids": encode(text)} for text in TEXTS]
    (HERE / f"tokenizer-{name}.json").write_text("[\n" + ",\n".join(json.dumps(e) for e in expected) + "\n]\n")


def byte_pairs(name, cutting, normalizer, whole):
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    tokenizer.decoder = decoders.ByteLevel()
    # Trained on whole lines, the texts above many times among them, so that where texts are cut decides the ids.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=520, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    prose = pathlib.Path("experiments/pair/heldout.txt").read_text()[:20000].split(". ")
    numbers = ["12345 1,000,000 3.14159 'll 'RE"] * 100
    tokenizer.train_from_iterator(prose + [t for t in TEXTS if "|" not in t] * 40 + numbers, trainer)
    # Tokens that no merges make: where words that are tokens need none, they still occur.
    whole_json = json.loads(tokenizer.to_str())
    del whole_json["model"]["merges"][-60:]
    tokenizer = Tokenizer.from_str(json.dumps(whole_json))
    tokenizer.pre_tokenizer = cutting
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer = gguf.GGUFWriter(HERE / f"tokenizer-{name}.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t == "<|end|>" else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_add_bos_token(False)
    save(name, writer, lambda text: tokenizer.encode(text, add_special_tokens=False).ids)


def pieces():
    model = sentencepiece.SentencePieceProcessor(model_file="experiments/pair/novels-standard/tokenizer.model")
    ids = range(model.GetPieceSize())
    writer = gguf.GGUFWriter(HERE / "tokenizer-pieces.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([model.IdToPiece(i).encode() for i in ids])
    writer.add_token_scores([model.GetScore(i) for i in ids])
    writer.add_token_types([2 if model.IsUnknown(i) else 3 if model.IsControl(i) else 6 if model.IsByte(i) else 1
                            for i in ids])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    writer.add_remove_extra_whitespaces(model.encode("a  b") == model.encode("a b"))
    save("pieces", writer, model.encode)


for kind, parts in KINDS.items():
    byte_pairs(kind, *parts)
pieces()
