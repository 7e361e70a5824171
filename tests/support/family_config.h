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
  return {{"model_type", family},   {"vocab_size", 50},         {"hidden_size", 48},        {"intermediate_size", 40},
          {"num_hidden_layers", 4}, {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"rms_norm_eps", 0.00001}};
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
