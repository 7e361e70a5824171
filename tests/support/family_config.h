// SPDX-License-Identifier: Apache-2.0
// Small configurations of the families, and the messages for bad ones.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"

namespace tare {

// Four layers of four heads.
inline nlohmann::json SmallConfig(const char* family) {
  nlohmann::json json{{"model_type", family},     {"vocab_size", 50},       {"hidden_size", 48},
                      {"intermediate_size", 40},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
                      {"num_key_value_heads", 4}, {"rms_norm_eps", 0.00001}};
  if (json["model_type"] == "motif3")
    json.update({{"num_key_value_heads", 2},
                 {"num_noise_heads", 2},
                 {"q_lora_rank", 8},
                 {"kv_lora_rank", 8},
                 {"head_dim", 12},
                 {"v_head_dim", 6},
                 {"qk_rope_head_dim", 4},
                 {"sliding_window", 5},
                 {"sliding_window_period", 4},
                 {"polynorm_output_scale", 1.0}});
  return json;
}

inline nlohmann::json With(nlohmann::json json, const char* key, const nlohmann::json& value) {
  json[key] = value;
  return json;
}

inline ModelConfig Parsed(const nlohmann::json& json) { return ParseConfig(json.dump(), "c.json"); }

// The message has the place, the key and `why`.
inline void ExpectConfigRefused(const nlohmann::json& json, const std::string& key, const std::string& why) {
  EXPECT_THAT([&] { Parsed(json); }, testing::ThrowsMessage<Error>(
                                         testing::AllOf(testing::HasSubstr("c.json: " + key), testing::HasSubstr(why))))
      << json;
}

}  // namespace tare
