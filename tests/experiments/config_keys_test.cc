// SPDX-License-Identifier: Apache-2.0
// Keys of config.json in every family of transformers 5.12: spelled in two ways, left out, at values that change the
// model. The loss is transformers' (tests/data/config-keys/make.py), or an error names the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "experiments/model/config/family.h"
#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::config_keys_test {
namespace {

using Json = nlohmann::json;

// zlib's.
uint32_t Crc32(const std::string& text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// As values() of make.py.
std::vector<float> ValuesNamed(const std::string& name, size_t count, float offset) {
  std::vector<float> values(count);
  const bool norm = name.find("norm") != name.npos;
  for (size_t i = 0; i < count; ++i) {
    uint32_t u = static_cast<uint32_t>(i) + Crc32(name);
    u = (u ^ u >> 16) * 0x7FEB352Du;
    u = (u ^ u >> 15) * 0x846CA68Bu;
    const float x = static_cast<float>(u >> 8) / static_cast<float>(1 << 24) - 0.5f;
    values[i] = norm ? x * 0.25f + offset : x;
  }
  return values;
}

void PutWeights(const std::filesystem::path& path, const Json& shapes, float offset) {
  std::map<std::string, TestArray> arrays;
  for (const auto& [name, shape] : shapes.items()) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    arrays[name] = {sizes, ValuesNamed(name, static_cast<size_t>(*ElementCount(sizes)), offset)};
  }
  PutArrays(path, arrays);
}

double Loss(const std::filesystem::path& folder, const std::vector<std::vector<int32_t>>& rows) {
  Model model(folder);
  TokenBatch batch;
  for (size_t i = 0; i < rows.size(); ++i) batch.Add(static_cast<int64_t>(i), rows[i]);
  const std::vector<float> logits = LogitsOf(model, batch);
  const int64_t V = model.config().vocabulary;
  double sum = 0, count = 0;
  const float* row = logits.data();
  for (const std::vector<int32_t>& ids : rows) {
    for (size_t t = 0; t < ids.size(); ++t, row += V) {
      if (t + 1 == ids.size()) continue;
      double total = 0;
      for (int64_t v = 0; v < V; ++v) total += std::exp(double{row[v]} - row[ids[t + 1]]);
      sum += std::log(total), ++count;
    }
  }
  return sum / count;
}

// Cases that transformers computes and Tare refuses: of each what the message names.
const std::map<std::string, std::string>& Refused() {
  static const std::map<std::string, std::string> cases{
      {"scaling beside parameters", "rope_scaling"},
      {"scaling beside parameters, theta outside", "rope_"},
      {"scaling beside parameters, other theta", "rope_"},
      {"scaling beside parameters, linear", "rope_scaling"},
      {"scaling other than parameters", "rope_scaling"},
      {"scaling default beside parameters", "rope_scaling"},
      {"linear by type", "type"},
      {"linear, theta inside and outside", "rope_theta"},
      {"type and rope_type differ", "type"},
      {"proportional", "rope_type"},
      {"swiglu_limit", "swiglu_limit"},
      {"is_causal false, window", "expected at most 8"},
      {"is_causal false", "expected at most 8"},
      {"is_causal null", "expected at most 8"},
      {"use_bidirectional_attention", "expected at most 4"},
      {"tied", "tie_word_embeddings"},
      {"without tie_word_embeddings", "tie_word_embeddings"},
      {"attention_bias", "bias"},
      {"layer_types, not in use", "layer_types"},
      {"su", "type"},
      {"mrope", "type"},
      {"alpha", "type"},
      {"type and rope_type", "type"},
      {"yarn with lists", "type"},
      {"partial_rotary_factor inside", "rope_parameters: rope_type"},
  };
  return cases;
}

// Olmo 3 scales its positions as in its training, not as transformers 5.12 (olmo2.cc).
bool ScalesOtherwise(const std::string& family, const Json& config) {
  const Json scaling = config.value("rope_scaling", Json()), named = config.value("rope_parameters", Json());
  const auto scales = [](const Json& rope) { return rope.is_object() && rope.contains("factor"); };
  return family == "olmo3" && (scales(scaling) || scales(named) || scaling.contains("long_factor"));
}

class ConfigKeys : public testing::TestWithParam<std::string> {};

TEST_P(ConfigKeys, GiveTransformersLossOrAnErrorThatNamesThem) {
  static const Json data = ReadJson(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/config-keys/cases.json");
  const auto rows = data["ids"].get<std::vector<std::vector<int32_t>>>();
  const Json& family = data["families"].at(GetParam());
  const TemporaryFolder folder;
  PutWeights(folder / "model.safetensors", family["shapes"], GetParam().starts_with("gemma3_text") ? 0.0f : 1.0f);
  int computed = 0;
  for (const auto& [name, expected] : family["nll"].items()) {
    SCOPED_TRACE(name);
    Json config = family["config"];
    for (const Json& key : data["cases"][name]["drop"]) config.erase(key.get<std::string>());
    config.update(data["cases"][name]["set"]);
    PutFile(folder / "config.json", config.dump());
    std::string error;
    double loss = 0;
    try {
      loss = Loss(folder.path(), rows);
    } catch (const Error& e) {
      error = e.what();
    }
    if (!error.empty() && !expected.is_null()) {
      ASSERT_TRUE(Refused().contains(name)) << error;
      EXPECT_THAT(error, testing::HasSubstr(Refused().at(name)));
    } else if (error.empty() && !expected.is_null() && !ScalesOtherwise(GetParam(), config)) {
      EXPECT_NEAR(loss, expected.get<double>(), 2e-6 * expected.get<double>());
      ++computed;
    }
  }
  EXPECT_GT(computed, family["nll"].size() < 10 ? 3 : 40);
}

INSTANTIATE_TEST_SUITE_P(All, ConfigKeys,
                         testing::Values("llama", "diffllama", "qwen2", "qwen3", "mistral", "ministral", "olmo2",
                                         "olmo3", "gemma3_text", "smollm3", "granite", "phi3", "gpt_oss", "mixtral",
                                         "qwen3_moe", "llama_biases", "diffllama_biases", "qwen3_biases",
                                         "olmo2_biases", "gemma3_text_biases", "smollm3_biases", "granite_biases",
                                         "qwen3_moe_biases", "gpt_oss_no_biases", "qwen3_moe_dense"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace tare::config_keys_test
