# SPDX-License-Identifier: Apache-2.0
"""What transformers gives by lm-evaluation-harness's own windows, and by llama.cpp's and GPTQ's rules:

    PYTHONPATH=lm-evaluation-harness python3 expected.py experiments/pair/novels-standard experiments/pair/heldout.txt

Needs torch, transformers and sentencepiece. Prints a line of JSON for each case.
"""
import json
import math
import sys

import sentencepiece
import torch
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from transformers import AutoModelForCausalLM


def losses(model, context, continuation):
    """Minus the log-probabilities of a continuation, as HFLM._loglikelihood_tokens runs it."""
    tokens = context + continuation
    with torch.no_grad():
        logits = model(torch.tensor([tokens[:-1]])).logits[0, -len(continuation):].double()
    return -torch.log_softmax(logits, -1)[range(len(continuation)), continuation]


def lm_eval(model, tokens, bos, length):
    windows = get_rolling_token_windows(token_list=tokens, prefix_token=bos, max_seq_len=length, context_len=1)
    return torch.cat([losses(model, *make_disjoint_window(window)) for window in windows])


def llama_cpp(model, tokens, bos, length, chunks):
    found = []
    for begin in range(0, length * chunks, length):
        chunk = [bos] + tokens[begin + 1:begin + length]
        found.append(losses(model, chunk[:length // 2 + 1], chunk[length // 2 + 1:]))
    return torch.cat(found)


def gptq(model, tokens, length, samples):
    return torch.cat([losses(model, tokens[begin:begin + 1], tokens[begin + 1:begin + length])
                      for begin in range(0, length * samples, length)])


def main(folder, text):
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    pieces = sentencepiece.SentencePieceProcessor(model_file=folder + "/tokenizer.model")
    bos = pieces.bos_id()
    with open(text, encoding="utf-8") as file:
        tokens = [bos] + pieces.encode(file.read())
    for name, found in [("lm-eval, 1024 tokens, max_length=512", lm_eval(model, tokens[:1024], bos, 512)),
                        ("lm-eval, 1500 tokens, max_length=200", lm_eval(model, tokens[:1500], bos, 200)),
                        ("lm-eval, 3000 tokens, max_length=2048", lm_eval(model, tokens[:3000], bos, 2048)),
                        ("llama.cpp, -c 512 --chunks 20", llama_cpp(model, tokens, bos, 512, 20)),
                        ("llama.cpp, -c 129 --chunks 5", llama_cpp(model, tokens, bos, 129, 5)),
                        ("gptq, seqlen 2048, 5 samples", gptq(model, tokens, 2048, 5))]:
        print(json.dumps({"case": name, "tokens": len(found), "log_likelihood": -found.sum().item(),
                          "perplexity": math.exp(found.mean())}))


main(*sys.argv[1:])
