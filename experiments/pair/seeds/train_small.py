#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one model of a small matched pair (standard or differential) on novels and repeated passages, and saves it in
Hugging Face layout. Same data order, size and budget for both kinds; what differs from pair to pair is the seed.

usage: train_small.py KIND SEED WORK_DIR [STEPS]     KIND: standard | differential
"""
import math
import pathlib
import random
import sys
import time

import numpy as np
import torch
from transformers import DiffLlamaConfig, DiffLlamaForCausalLM, LlamaConfig, LlamaForCausalLM

kind, seed, work = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
steps = int(sys.argv[4]) if len(sys.argv) > 4 else 1500
torch.set_num_threads(1)
LR, SEQ, BATCH, BOS, NL = 2e-3, 256, 16, 1, 13  # NL: <0x0A>
TEXT = np.load(work / "train.npy")


def batch(step):
    """Ids [BATCH, SEQ + 1] and weights of their losses [BATCH, SEQ]."""
    r = random.Random(seed * 1_000_003 + step)
    xs, ws = [], []
    for _ in range(BATCH):
        a = r.randrange(len(TEXT) - SEQ)
        ids, w = [BOS] + TEXT[a:a + SEQ].astype(int).tolist(), [1.0] * SEQ
        if r.random() < 0.3:  # a passage, then a stretch of it again; after its first four tokens that weighs double
            m = r.randint(12, SEQ // 3)
            n = SEQ - 1 - m
            c = r.randrange(n - m)
            ids = ids[:1 + n] + [NL] + ids[1 + c:1 + c + m]
            w = [1.0] * n + [0.0] * 5 + [2.0] * (m - 4)
        xs.append(ids[:SEQ + 1])
        ws.append(w[:SEQ])
    return torch.tensor(xs), torch.tensor(ws)


LAYERS = 4
shape = dict(vocab_size=2048, hidden_size=128, intermediate_size=384, num_hidden_layers=LAYERS, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=True, rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2)
torch.manual_seed(seed)
config, cls = (LlamaConfig, LlamaForCausalLM) if kind == "standard" else (DiffLlamaConfig, DiffLlamaForCausalLM)
model = cls._from_config(config(**shape), attn_implementation="eager")
with torch.no_grad():  # 1/sqrt(fan in), the writers into the residual stream smaller
    for name, p in model.named_parameters():
        if p.dim() == 2:
            writes = name.endswith(("o_proj.weight", "down_proj.weight"))
            p.normal_(0, p.shape[1] ** -0.5 * ((2 * LAYERS) ** -0.5 if writes else 1))
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)],
                        lr=LR, betas=(0.9, 0.95), fused=True)
log, started = (work / f"log-{kind}-{seed}.txt").open("w"), time.time()
for step in range(steps):
    for group in opt.param_groups:
        group["lr"] = LR * min(1, (step + 1) / 200) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
    x, w = batch(step)
    logits = model(input_ids=x[:, :-1]).logits
    nll = torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), x[:, 1:], reduction="none")
    loss = (nll * w).sum() / w.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    if step % 50 == 0 or step == steps - 1:
        log.write(f"{step} loss {loss.item():.3f} text {nll[w == 1].mean().item():.3f} "
                  f"copy {nll[w == 2].mean().item():.3f} {time.time() - started:.0f}s\n")
        log.flush()
model.to(torch.bfloat16).save_pretrained(work / f"{kind}-{seed}")
