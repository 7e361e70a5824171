# SPDX-License-Identifier: Apache-2.0
"""What transformers' classes set where config.json says nothing but model_type.

python3 defaults.py >defaults.json   with transformers 5.12.1
"""
import json
from transformers import AutoConfig
rows={}
for m in "llama diffllama qwen2 qwen3 mistral ministral olmo2 olmo3 gemma3_text smollm3 granite phi3 gpt_oss mixtral qwen3_moe clip_text_model clip_vision_model".split():
    c=AutoConfig.for_model(m)
    d=c.to_dict()
    rp=d.get('rope_parameters') or {}
    rows[m]={k:d.get(k) for k in "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim max_position_embeddings rms_norm_eps layer_norm_eps tie_word_embeddings attention_bias mlp_bias sliding_window moe_intermediate_size num_experts num_local_experts num_experts_per_tok norm_topk_prob query_pre_attn_scalar layer_types attention_multiplier".split() if k in d}
    lt=rows[m].get('layer_types')
    if lt: rows[m]['layer_types']=''.join(t[0] for t in lt)
    rows[m]['rope_parameters']=rp
print("{\n"+",\n".join(f' "{k}": '+json.dumps(v) for k,v in rows.items())+"\n}")
