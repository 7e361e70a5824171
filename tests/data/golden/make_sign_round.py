#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sign_round.safetensors in llama-mha: what AutoRound's tuning (SignRound: Cheng et al., arXiv 2309.05516) reaches on
single linear layers of that golden checkpoint, written from its published definition with PyTorch's own gradients. The
inputs are those of make_awq.py, all in every step; four bits with a zero point in groups of 16; 200 steps of 1/200 that
fall to 0; the step with the least squared error of the outputs is kept.

    nearest.{layer}.{place} [1]     summed squared error of the outputs, rounded to nearest
    learned.{layer}.{place} [1]     after tuning

    python3 make_sign_round.py
"""
import os

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

GROUP, LEVELS, STEPS = 16, 15, 200


class Round(torch.autograd.Function):
    """To the nearest whole number; the gradient passes."""

    @staticmethod
    def forward(_, x):
        return torch.round(x)

    @staticmethod
    def backward(_, gradient):
        return gradient


def rounded(w, v, shrink_low, shrink_high):
    groups = w.reshape(-1, GROUP)
    low = groups.min(1)[0].clamp(max=0) * shrink_low
    high = groups.max(1)[0].clamp(min=0) * shrink_high
    step = (((high - low) / LEVELS).clamp(min=1e-8))[:, None]
    zero = Round.apply(-low[:, None] / step)
    codes = (Round.apply(groups / step + v) + zero).clamp(0, LEVELS)
    return ((codes - zero) * step).reshape(w.shape)


def tune(w, x):
    groups = w.numel() // GROUP
    v = torch.zeros(groups, GROUP, requires_grad=True)
    shrink = [torch.ones(groups, requires_grad=True) for _ in range(2)]
    exact, losses = x @ w.T, []
    for step in range(STEPS):
        loss = ((x @ rounded(w, v, *shrink).T - exact) ** 2).sum()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, [v, *shrink])
        with torch.no_grad():
            for parameter, gradient in zip([v, *shrink], gradients):
                parameter -= (1 - step / STEPS) / STEPS * gradient.sign()
            for parameter in shrink:
                parameter.clamp_(0, 1)
    return losses[0], min(losses)


folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama-mha")
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
ids = torch.tensor([(i * i * 7 + 3 * i) % 95 + 1 for i in range(400)]).reshape(8, 50)
places, seen, tensors = ["self_attn.v_proj", "self_attn.o_proj", "mlp.down_proj"], {}, {}
for layer, block in enumerate(model.model.layers):
    for place in places:
        block.get_submodule(place).register_forward_pre_hook(
            lambda _, args, key=(layer, place): seen.__setitem__(key, args[0]))
with torch.no_grad():
    model(ids)
for layer, block in enumerate(model.model.layers):
    for place in places:
        x = seen[layer, place].reshape(-1, seen[layer, place].shape[-1])
        nearest, learned = tune(block.get_submodule(place).weight.detach(), x)
        tensors[f"nearest.{layer}.{place}"] = np.array([nearest], np.float32)
        tensors[f"learned.{layer}.{place}"] = np.array([learned], np.float32)
        print(layer, place, nearest, learned, learned / nearest)
save_file(tensors, os.path.join(folder, "sign_round.safetensors"))
