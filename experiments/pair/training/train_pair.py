#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one model of a matched pair and saves it in Hugging Face layout as WORK/novels-KIND.

Run it once for each kind: both then see the same batches in the same order for the same number of steps. WORK holds
tokenizer.model and text/train.txt (README.md beside this file tells how to make them). Interrupted and started again,
it goes on from its last checkpoint (every 200 steps); the log goes to WORK/log-KIND.txt. To try it out: --steps 2.
"""
import argparse
import math
import os
import pathlib
import shutil
import time

import numpy as np
import sentencepiece
import torch
from transformers import DiffLlamaConfig, DiffLlamaForCausalLM, LlamaConfig, LlamaForCausalLM

from documents import SECOND_RUN, SEED, Documents

HERE = pathlib.Path(__file__).parent
LAYERS = 4
SHAPE = dict(vocab_size=2048, hidden_size=256, intermediate_size=688, num_hidden_layers=LAYERS, num_attention_heads=8,
             num_key_value_heads=8, max_position_embeddings=2048, tie_word_embeddings=True, rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2)
FAMILIES = {"standard": (LlamaForCausalLM, LlamaConfig), "differential": (DiffLlamaForCausalLM, DiffLlamaConfig)}
WARM_UP = 200
SECOND_RATE = 8e-4


def load_text(work, tokenizer):
    """Ids of train.txt, a newline's after every line; kept in WORK/train.npy."""
    cache = work / "train.npy"
    if not cache.exists():
        newline = tokenizer.piece_to_id("<0x0A>")
        ids = []
        with (work / "text/train.txt").open() as lines:
            for line in lines:
                ids += tokenizer.encode(line.rstrip("\n")) + [newline]
        np.save(cache, np.array(ids, np.uint16))
    return np.load(cache)


def make_model(kind):
    torch.manual_seed(SEED)
    family, config = FAMILIES[kind]
    model = family._from_config(config(**SHAPE), attn_implementation="eager")
    # 1/sqrt(fan in), and less for what writes into the residual stream: transformers' 0.02 leaves attention flat for
    # thousands of steps at this size.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                parameter.normal_(0, parameter.shape[1] ** -0.5 * ((2 * LAYERS) ** -0.5 if writes else 1))
    return model


def make_optimizer(model, rate):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)


def rate_at(step, steps, rate):
    """Cosine decay to a tenth until the second run, which has a rate of its own with linear decay to a tenth."""
    if step >= SECOND_RUN:
        return SECOND_RATE * min(1, (step - SECOND_RUN + 1) / 50) * (
            1 - 0.9 * (step - SECOND_RUN) / (steps - SECOND_RUN))
    return rate * min(1, (step + 1) / WARM_UP) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1, step / SECOND_RUN))))


def train_step(model, optimizer, ids, weights):
    """One step on a batch; returns the loss, each weighing token's loss and weight, and the gradient's norm."""
    weighs = weights[:, 1:] > 0      # vocabulary logits only where something weighs
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.lm_head(model.model(input_ids=ids[:, :-1]).last_hidden_state[weighs])
    losses = torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][weighs], reduction="none")
    token_weights = weights[:, 1:][weighs]
    loss = (losses * token_weights).sum() / token_weights.sum()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item(), losses.detach(), token_weights, norm


def log_line(step, loss, losses, weights, norm, seconds):
    def mean(weight):
        chosen = weights == weight
        return losses[chosen].mean().item() if chosen.any() else float("nan")
    return (f"{step} loss {loss:.3f} text {mean(1.0):.3f} needle {mean(6.0):.3f} icl {mean(4.0):.3f} "
            f"copy {mean(2.0):.3f} "
            f"gn {norm:.2f} {seconds:.0f}s\n")


def save_checkpoint(path, model, optimizer, step):
    torch.save(dict(model=model.state_dict(), opt=optimizer.state_dict(), step=step), f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=FAMILIES)
    parser.add_argument("work", type=pathlib.Path, help="folder with tokenizer.model and text/train.txt")
    parser.add_argument("--steps", type=int, default=7300, help="in all (default: %(default)s, as the embedded pair)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all, %(default)s here")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3,
                        help="of the first 6,000 steps (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(args.work / "tokenizer.model"))
    documents = Documents(tokenizer, load_text(args.work, tokenizer), (HERE / "cities.txt").read_text().split(),
                          (HERE / "words.txt").read_text().split())
    model = make_model(args.kind)
    optimizer = make_optimizer(model, args.learning_rate)
    checkpoint, first = args.work / f"ckpt-{args.kind}.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["opt"])
        first = state["step"]

    started = time.time()
    with (args.work / f"log-{args.kind}.txt").open("a") as log:
        for step in range(first, args.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, args.steps, args.learning_rate)
            ids, weights = documents.batch(step)
            result = train_step(model, optimizer, torch.tensor(ids), torch.tensor(weights))
            if step % 50 == 0:
                line = log_line(step, *result, time.time() - started)
                log.write(line)
                log.flush()
                print(line, end="", flush=True)
            if step % 200 == 199 or step == args.steps - 1:
                save_checkpoint(checkpoint, model, optimizer, step + 1)

    folder = args.work / f"novels-{args.kind}"
    model.to(torch.bfloat16).save_pretrained(folder)
    shutil.copy(args.work / "tokenizer.model", folder)
    print(f"saved {folder}")


if __name__ == "__main__":
    main()
