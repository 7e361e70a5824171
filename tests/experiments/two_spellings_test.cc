// SPDX-License-Identifier: Apache-2.0
// Settings that config.json can say in two ways. Where they differ, an error names one of them, or a notice says which
// of them holds, as in transformers 5.12.1; equal ones are read in silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "tests/support/family_config.h"

namespace tare::two_spellings_test {
namespace {

using Json = nlohmann::json;

std::string& Noticed() {
  static std::string text;
  return text;
}

struct Case {
  const char *family, *differ, *equal;  // merged into the configuration
  const char *refused, *noticed;        // one of them, in the first
};

const Case kCases[] = {
    {"llama", R"({"rope_theta": 7e5, "rope_parameters": {"rope_theta": 5e5}})",
     R"({"rope_theta": 500000, "rope_parameters": {"rope_theta": 5e5}})",
     "c.json: rope_theta: got 700000.0, expected 500000.0, as c.json: rope_parameters: rope_theta says", nullptr},
    {"qwen3", R"({"rope_theta": 7e5, "rope_scaling": {"type": "linear", "factor": 2, "rope_theta": 5e5}})",
     R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2, "rope_theta": 5e5}})",
     "c.json: rope_theta: got 700000.0, expected 500000.0, as c.json: rope_scaling: rope_theta says", nullptr},
    {"phi3", R"({"partial_rotary_factor": 0.75, "rope_parameters": {"partial_rotary_factor": 0.5}})",
     R"({"partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.5}})",
     "c.json: partial_rotary_factor: got 0.75, expected 0.5", nullptr},
    {"mistral", R"({"rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2}})",
     R"({"rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 2}})",
     "c.json: rope_scaling: type: got \"dynamic\", expected \"linear\"", nullptr},
    {"llama", R"({"original_max_position_embeddings": 20, "rope_scaling": {"rope_type": "yarn", "factor": 4,
                  "original_max_position_embeddings": 12}})",
     R"({"original_max_position_embeddings": 12, "rope_scaling": {"rope_type": "yarn", "factor": 4,
         "original_max_position_embeddings": 12}})",
     nullptr, "original_max_position_embeddings: 20 beside rope parameters holds"},
    {"gemma3_text", R"({"rope_theta": 7e5, "rope_parameters": {"full_attention": {"rope_theta": 5e5}}})",
     R"({"rope_theta": 5e5, "rope_parameters": {"full_attention": {"rope_theta": 5e5}}})",
     "c.json: rope_theta: got 700000.0, expected 500000.0", nullptr},
    {"gemma3_text", R"({"rope_local_base_freq": 50, "rope_parameters": {"sliding_attention": {"rope_theta": 60}}})",
     R"({"rope_local_base_freq": 60, "rope_parameters": {"sliding_attention": {"rope_theta": 60}}})",
     "c.json: rope_local_base_freq: got 50, expected 60", nullptr},
    {"gemma3_text", R"({"hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh"})",
     R"({"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"})", nullptr,
     "hidden_act: not read in a gemma3_text model"},
    {"gemma3_text", R"({"sliding_window": 7, "sliding_window_pattern": 2, "layer_types":
         ["sliding_attention", "full_attention", "full_attention", "full_attention"]})",
     R"({"sliding_window": 7, "sliding_window_pattern": 2, "layer_types":
         ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})",
     nullptr, "sliding_window_pattern: layer_types says otherwise of layer 2, and holds"},
    {"qwen2", R"({"use_sliding_window": true, "sliding_window": 7, "max_window_layers": 3, "layer_types":
         ["full_attention", "full_attention", "sliding_attention", "full_attention"]})",
     R"({"use_sliding_window": true, "sliding_window": 7, "max_window_layers": 2, "layer_types":
         ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]})",
     nullptr, "max_window_layers: layer_types says otherwise of layer 2, and holds"},
    {"smollm3", R"({"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 2})",
     R"({"no_rope_layers": [1, 0, 1, 0], "no_rope_layer_interval": 2})", nullptr,
     "no_rope_layer_interval: not read in a smollm3 model"},
    {"mixtral", R"({"num_experts": 4, "num_local_experts": 8})", R"({"num_experts": 4, "num_local_experts": 4})",
     "c.json: num_local_experts: got 8, expected num_experts 4", nullptr},
    {"qwen3_moe", R"({"num_experts_per_tok": 4, "experts_per_token": 2})",
     R"({"num_experts_per_tok": 4, "experts_per_token": 4})",
     "c.json: experts_per_token: got 2, expected num_experts_per_tok 4", nullptr},
    {"motif", R"({"use_bias": true, "qkv_bias": false})", R"({"use_bias": true, "qkv_bias": true})",
     "c.json: qkv_bias: got false", nullptr},
};

TEST(TwoSpellings, ThatDifferAreRefusedOrOneHoldsWithANotice) {
  for (const Case& c : kCases) {
    const auto read = [&](const char* more) {
      Json json = SmallConfig(c.family);
      json.update(Json::parse(more));
      Noticed().clear();
      OnNotice([](const std::string& text) { Noticed() += text + "\n"; });
      try {
        Parsed(json);
      } catch (const Error& error) {
        OnNotice(nullptr);
        return std::string(error.what());
      }
      OnNotice(nullptr);
      return std::string();
    };
    EXPECT_THAT(read(c.differ), testing::HasSubstr(c.refused ? c.refused : "")) << c.differ;
    EXPECT_THAT(Noticed(), testing::HasSubstr(c.noticed ? c.noticed : ""));
    EXPECT_EQ(read(c.equal), "");
    EXPECT_EQ(Noticed(), "") << c.equal;
  }
}

}  // namespace
}  // namespace tare::two_spellings_test
