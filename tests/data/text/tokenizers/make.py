#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Trains a tiny tokenizer of every style on the embedded pair's held-out text and a line of other scripts, by Hugging Face's tokenizers library
# (0.23.1), and writes STYLE.json and STYLE.cases: random texts with the ids and the decoded text that the library gives.
#
# usage, from the root of the tree: make.py FOLDER CASES SEED
import json, random, sys, unicodedata
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, decoders, processors, trainers, Regex, AddedToken
out = sys.argv[1]; n = int(sys.argv[2]); seed = int(sys.argv[3])
text = open('experiments/pair/heldout.txt').read()[:300000]
extra = "Ça coûte 12,50 € à l'école. Füße, straße, İstanbul, naïve café.\n日本語のテキストです。中文字符测试，你好！한국어 텍스트.\nПривет, мир! Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم\n😀😃👩‍👩‍👧‍👦🏳️‍🌈 ½ ² ³ ﬁ ﬂ Ⅷ ① \u0301e\u0301 \t\ttab  two   three\r\nfunction f(x) { return x+1; } // 123456789 3.14159\n" * 20
corpus = [l for l in (text + extra).split('\n')] + [text[i:i+400] for i in range(0, 60000, 400)]
G = lambda p: pre_tokenizers.Split(Regex(p), 'isolated')
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DS = [pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), 'isolated'), pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), 'isolated'), G(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")]
BL = lambda **k: pre_tokenizers.ByteLevel(**k)
alphabet = pre_tokenizers.ByteLevel.alphabet()
def bpe_bytes(pre, norm=None, special=('<|endoftext|>',), post=None, size=700, **model):
    t = Tokenizer(models.BPE(**model)); t.normalizer = norm; t.pre_tokenizer = pre; t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False))
    if post: t.post_processor = post(t)
    return t
def styles():
    S = pre_tokenizers.Sequence
    yield 'gpt2', bpe_bytes(BL(add_prefix_space=False), post=lambda t: processors.ByteLevel(trim_offsets=False))
    yield 'roberta', bpe_bytes(BL(add_prefix_space=True), special=('<s>', '</s>', '<mask>'), post=lambda t: processors.RobertaProcessing(('</s>', 1), ('<s>', 0)))
    t = bpe_bytes(S([G(LLAMA3), BL(add_prefix_space=False, use_regex=False)]), special=('<|begin_of_text|>', '<|eot_id|>'), post=lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single='<|begin_of_text|> $A', pair='<|begin_of_text|> $A <|begin_of_text|> $B', special_tokens=[('<|begin_of_text|>', 0)])]))
    j = json.loads(t.to_str()); j['model']['ignore_merges'] = True; yield 'llama3', Tokenizer.from_str(json.dumps(j))
    yield 'qwen2', bpe_bytes(S([G(QWEN2), BL(add_prefix_space=False, use_regex=False)]), norm=normalizers.NFC())
    yield 'o200k', bpe_bytes(S([G(O200K), BL(add_prefix_space=False, use_regex=False)]))
    yield 'smollm', bpe_bytes(S([pre_tokenizers.Digits(individual_digits=True), BL(add_prefix_space=False)]))
    yield 'deepseek', bpe_bytes(S(DS + [BL(add_prefix_space=False, use_regex=False)]))
    t = bpe_bytes(BL(add_prefix_space=False), norm=normalizers.NFC()); t.add_tokens([AddedToken(' ' * k, normalized=True) for k in range(24, 1, -1)]); yield 'neox', t
    def spm(pre, norm, dec, size=800, special=('<unk>', '<s>', '</s>'), fuse=True):
        t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=fuse, byte_fallback=True)); t.normalizer = norm
        t.pre_tokenizer = pre or pre_tokenizers.Metaspace('▁', prepend_scheme='always', split=True)
        t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special) + [f'<0x{b:02X}>' for b in range(256)], show_progress=False, limit_alphabet=90))
        j = json.loads(t.to_str()); j['added_tokens'] = [a for a in j['added_tokens'] if not a['content'].startswith('<0x')]
        t = Tokenizer.from_str(json.dumps(j)); t.pre_tokenizer = pre if pre else None
        if pre is None: j = json.loads(t.to_str()); j['pre_tokenizer'] = None; t = Tokenizer.from_str(json.dumps(j))
        t.decoder = dec; t.post_processor = processors.TemplateProcessing(single='<s> $A', pair='<s> $A <s> $B', special_tokens=[('<s>', 1)])
        return t
    D = decoders
    dec = D.Sequence([D.Replace('▁', ' '), D.ByteFallback(), D.Fuse(), D.Strip(' ', 1, 0)])
    yield 'llama2', spm(None, normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')]), dec)
    yield 'mistral', spm(pre_tokenizers.Metaspace('▁', prepend_scheme='first', split=False), None, dec)
    gdec = D.Sequence([D.Replace('▁', ' '), D.ByteFallback(), D.Fuse()])
    g = spm(pre_tokenizers.Split(' ', 'merged_with_previous'), normalizers.Replace(' ', '▁'), gdec); g.add_tokens([AddedToken('\n' * k, normalized=False) for k in range(2, 8)] + [AddedToken('▁' * k, normalized=False) for k in range(2, 8)]); yield 'gemma', g
    yield 'nofuse', spm(None, normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')]), dec, fuse=False)
    def uni(norm, bf=False, pre=None):
        t = Tokenizer(models.Unigram()); t.normalizer = norm; t.pre_tokenizer = pre or pre_tokenizers.Metaspace('▁', prepend_scheme='always')
        sp = ['<unk>', '<s>', '</s>'] + ([f'<0x{b:02X}>' for b in range(256)] if bf else [])
        t.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=700, special_tokens=sp, unk_token='<unk>', show_progress=False))
        if bf:
            j = json.loads(t.to_str()); j['added_tokens'] = [a for a in j['added_tokens'] if not a['content'].startswith('<0x')]; j['model']['byte_fallback'] = True; t = Tokenizer.from_str(json.dumps(j))
        t.decoder = D.Metaspace('▁', prepend_scheme='always'); t.post_processor = processors.TemplateProcessing(single='$A </s>', pair='$A </s> $B </s>', special_tokens=[('</s>', 2)])
        return t
    yield 'unigram', uni(normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(' {2,}'), ' ')]))
    yield 'unigram-bytes', uni(normalizers.Sequence([normalizers.Strip(), normalizers.NFD(), normalizers.Lowercase()]), bf=True)
    def fields(b):
        i = 0
        def vi():
            nonlocal i
            v = s = 0
            while True:
                v |= (b[i] & 127) << s; s += 7; i += 1
                if b[i-1] < 128: return v
        while i < len(b):
            k = vi(); w = k & 7
            if w == 0: yield k >> 3, vi()
            elif w == 2: n = vi(); yield k >> 3, b[i:i+n]; i += n
            elif w == 5: yield k >> 3, b[i:i+4]; i += 4
            else: yield k >> 3, b[i:i+8]; i += 8
    # The table of SentencePiece's normalizer: of a few rules, or of its nmt_nfkc.
    import os, sentencepiece, tempfile
    def table(**rule):
        sentencepiece.SentencePieceTrainer.train(input='experiments/pair/heldout.txt', model_prefix=folder + '/m', vocab_size=400, minloglevel=2, **rule)
        return dict(fields(dict(fields(open(folder + '/m.model', 'rb').read()))[3]))[2]
    with tempfile.TemporaryDirectory() as folder:
        open(folder + '/rules.tsv', 'w').write('FB01\t66 69\n2460\t31\n65 301\tE9\n65 20\t78\n301\t\n1F468 200D\t4D\n')
        charsmap = table(normalization_rule_tsv=folder + '/rules.tsv')
        nfkc = table(normalization_rule_name='nmt_nfkc')
    if os.environ.get('NMT_NFKC'): yield 'unigram-nfkc', uni(normalizers.Sequence([normalizers.Precompiled(nfkc)]))  # too large to keep
    yield 'unigram-precompiled', uni(normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True)]), pre=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace('▁', prepend_scheme='first')]))
    yield 'words', None
def words():
    # \w, punctuation and digits, and all flags of added tokens
    t = Tokenizer(models.BPE(unk_token='[UNK]')); t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation('contiguous'), pre_tokenizers.Digits(individual_digits=False)])
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, special_tokens=['[UNK]'], continuing_subword_prefix='##', show_progress=False))
    t.add_tokens([AddedToken('Times', single_word=True, normalized=True), AddedToken('[MASK]', lstrip=True, normalized=False), AddedToken('<r>', rstrip=True, normalized=False), AddedToken('[both]', lstrip=True, rstrip=True, normalized=True)])
    return t
def strings(rng):
    common = "".join(sorted(set(text + extra)))
    specials = ['<|endoftext|>', '<s>', '</s>', '<unk>', '<mask>', '[MASK]', '<r>', '[both]', 'Times', 'times', '  ', '\n\n', '▁▁', '<0x41>', '<|eot_id|>', "'ll", "'S", "ſ", 'İ', '﷽', 'e\u0301', '\u0301', '\u200d', '\u180e', '\x85', '\xa0', '\u3000', '\u2028', '\ufeff', '\x00', '\x1f', '\x7f', '１２３', '٣٤', 'Ⅷ', '½']
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ('Cs',)]
    known = [c for c in assigned if unicodedata.category(c) not in ('Cn', 'Co')]
    for i in range(n):
        k = rng.random()
        if k < 0.3: p = rng.randrange(len(text)); s = text[p:p + rng.randrange(200)]
        elif k < 0.55: s = "".join(rng.choice(common) for _ in range(rng.randrange(40)))
        elif k < 0.8: s = "".join(rng.choice(known) if rng.random() < .5 else rng.choice(common) for _ in range(rng.randrange(30)))
        else: s = "".join(rng.choice(assigned) for _ in range(rng.randrange(12)))
        for _ in range(rng.randrange(3)): p = rng.randrange(len(s) + 1); s = s[:p] + rng.choice(specials) + s[p:]
        yield s
for name, t in styles():
    if t is None: name, t = 'words', words()
    j = json.loads(t.to_str()); open(f'{out}/{name}.json', 'w').write(json.dumps(j, ensure_ascii=False, separators=(',', ':')))
    rng = random.Random(seed); S = list(strings(rng))
    cases = []
    for k in range(0, len(S), 1000):
        for s, e in zip(S[k:k+1000], t.encode_batch(S[k:k+1000], add_special_tokens=False)):
            cases.append({'text': s, 'ids': e.ids, 'decoded': t.decode(e.ids, skip_special_tokens=True)})
    open(f'{out}/{name}.cases', 'w').write(json.dumps(cases, separators=(',', ':')))
    print(name, t.get_vocab_size(), flush=True)
