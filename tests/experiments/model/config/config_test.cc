// SPDX-License-Identifier: Apache-2.0
// config.json: both spellings of the rotary parameters mean the same, defaults are those of transformers, and
// unsupported features are refused by name.
// ConfigKeys reads typed values: null counts as missing, and a message names place, key, found and expected value.
#include "experiments/model/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/model/config/family.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::config_test {
namespace {

TEST(ModelConfig, KindsSayWhoseKeysALayerReads) {
  ModelConfig config;
  EXPECT_EQ(config.KeysLayer(3), 3);
  EXPECT_EQ(KindText(config, 3), "full");
  using enum LayerKind;
  config.kinds = {kAttention, kMamba, kSharedAttention, kMemoryUnit};
  config.windows = {7, 0, 0, 0};
  const int keys[]{0, -1, 0, -1};
  const char* const texts[]{"window", "mamba", "shared", "memory unit"};
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(config.KeysLayer(layer), keys[layer]);
    EXPECT_EQ(KindText(config, layer), texts[layer]);
  }
}

}  // namespace
}  // namespace tare::config_test

namespace tare::read_config_test {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Only what no model can be built without.
Json Smallest(const char* family = "llama") {
  return {{"model_type", family},   {"vocab_size", 50},         {"hidden_size", 48},      {"intermediate_size", 40},
          {"num_hidden_layers", 2}, {"num_attention_heads", 6}, {"rms_norm_eps", 0.00001}};
}

ModelConfig Parse(const Json& json) { return ParseConfig(json.dump(), "c.json"); }

// The message has the place, the key and `why`.
void Refuses(const Json& json, const std::string& key, const std::string& why) {
  EXPECT_THAT(Call([&] { Parse(json); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("c.json"), HasSubstr(key), HasSubstr(why))))
      << json;
}

Json With(Json json, const char* key, const Json& value) {
  json[key] = value;
  return json;
}

void ExpectSameRotary(const RotaryConfig& a, const RotaryConfig& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.theta, b.theta);
  EXPECT_EQ(a.factor, b.factor);
  EXPECT_EQ(a.low_frequency_factor, b.low_frequency_factor);
  EXPECT_EQ(a.high_frequency_factor, b.high_frequency_factor);
  EXPECT_EQ(a.original_positions, b.original_positions);
}

TEST(ReadConfig, SmallestConfigHasTransformersDefaults) {
  const ModelConfig c = Parse(Smallest());
  EXPECT_EQ(c.family, "llama");
  EXPECT_EQ(c.vocabulary, 50);
  EXPECT_EQ(c.hidden, 48);
  EXPECT_EQ(c.ffn, 40);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 6);
  EXPECT_EQ(c.kv_heads, 6);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.max_positions, 2048);
  EXPECT_FALSE(c.tied_embeddings || c.attention_bias || c.mlp_bias || c.bos);
  EXPECT_EQ(c.rotary.type, RotaryConfig::Type::kDefault);
  EXPECT_EQ(c.rotary.theta, 10000.0);
  EXPECT_EQ(Maps(c), 1);
  EXPECT_EQ(Maps(Parse(Smallest("diffllama"))), 2);
}

TEST(ReadConfig, EveryKeyIsRead) {
  const ModelConfig c = LoadConfig(GoldenFolder("llama-gqa"));
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.hidden, 48);
  EXPECT_EQ(c.max_positions, 512);
  EXPECT_TRUE(c.tied_embeddings && c.attention_bias && c.mlp_bias);
  EXPECT_EQ(c.bos, 1);
  ExpectSameRotary(c.rotary, {.type = RotaryConfig::Type::kLlama3,
                              .theta = 500000.0,
                              .factor = 8.0,
                              .low_frequency_factor = 1.0,
                              .high_frequency_factor = 4.0,
                              .original_positions = 32});
}

TEST(ReadConfig, DiffLlamaHasNoMlpBiasWhateverTheKeySays) {
  EXPECT_FALSE(Parse(With(Smallest("diffllama"), "mlp_bias", true)).mlp_bias);
}

TEST(ReadConfig, OldAndNewSpellingOfRotaryParametersAreTheSame) {
  const Json llama3 = {
      {"factor", 8}, {"low_freq_factor", 1.5}, {"high_freq_factor", 4.5}, {"original_max_position_embeddings", 256}};
  const std::pair<const char*, Json> scalings[] = {
      {"default", Json::object()}, {"linear", {{"factor", 2.5}}}, {"llama3", llama3}};
  for (const auto& [type, scaling] : scalings) {
    SCOPED_TRACE(type);
    const Json modern =
        With(Smallest(), "rope_parameters", With(With(scaling, "rope_type", type), "rope_theta", 20000));
    const Json old = With(Smallest(), "rope_theta", 20000.0);
    const ModelConfig expected = Parse(modern);
    EXPECT_EQ(expected.rotary.theta, 20000.0);
    ExpectSameRotary(Parse(With(old, "rope_scaling", With(scaling, "rope_type", type))).rotary, expected.rotary);
    ExpectSameRotary(Parse(With(old, "rope_scaling", With(scaling, "type", type))).rotary, expected.rotary);
  }
  ExpectSameRotary(Parse(With(With(Smallest(), "rope_theta", 20000), "rope_scaling", nullptr)).rotary,
                   Parse(With(Smallest(), "rope_parameters", {{"rope_theta", 20000}})).rotary);
}

TEST(ReadConfig, TheInnerThetaCountsAndScalingByLayerIsRefused) {
  const Json inner = {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 500}};
  EXPECT_EQ(Parse(With(Smallest(), "rope_scaling", inner)).rotary.theta, 500);
  for (const char* key : {"rope_parameters", "rope_scaling"})
    Refuses(With(Smallest(), key, {{"full_attention", {{"rope_type", "linear"}, {"factor", 2}}}}), key,
            "full_attention");
}

TEST(ReadConfig, ScalingFallsBackToTheModelsPositions) {
  const Json scaling = {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  EXPECT_EQ(
      Parse(With(With(Smallest(), "max_position_embeddings", 640), "rope_scaling", scaling)).rotary.original_positions,
      640);
}

TEST(ReadConfig, MissingKeysAreNamed) {
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "rms_norm_eps"}) {
    Json without = Smallest("diff_v1");  // which no class of transformers has defaults for
    ASSERT_EQ(without.erase(key), 1u);
    Refuses(without, key, "missing");
    Refuses(With(Smallest("diff_v1"), key, nullptr), key, "missing");
  }
  const Json llama3 = {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    Json scaling = llama3;
    scaling.erase(key);
    Refuses(With(Smallest(), "rope_parameters", scaling), key, "missing");
    Refuses(With(Smallest(), "rope_scaling", scaling), key, "missing");
  }
  Refuses(With(Smallest(), "rope_scaling", {{"type", "linear"}}), "factor", "missing");
}

TEST(ReadConfig, UnsupportedFeaturesAreRefusedByName) {
  for (const char* weighted : {"prelu", "xielu"})
    Refuses(With(Smallest(), "hidden_act", weighted), "hidden_act", weighted);
  Refuses(With(Smallest(), "quantization_config", {{"bits", 4}}), "quantization_config", "not supported");
  for (const char* family : {"diff_v1", "diff_v2", "motif"}) {
    Refuses(With(With(Smallest(family), "hidden_act", nullptr), "sliding_window", 4096), "sliding_window", "4096");
    const int keys = std::string(family) == "diff_v2" ? 3 : 6;
    Refuses(With(With(Smallest(family), "num_key_value_heads", keys), "is_causal", false), "is_causal", "got false");
  }
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    Refuses(With(Smallest(), key, {{"partial_rotary_factor", 0.25}, {"rope_type", "linear"}, {"factor", 2}}),
            "partial_rotary_factor", "0.25");
    Refuses(With(Smallest(), key, {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2}}), "type",
            "got \"yarn\", expected \"linear\"");
    Refuses(With(Smallest(), key, {{"rope_type", "dynamic"}}), "factor", "missing");
  }
  Refuses(With(Smallest("gemma3"), "text_config", Smallest()), "model_type", "text model is in text_config");
  for (const char* type : {"proportional", ""}) {
    Refuses(With(Smallest(), "rope_parameters", {{"rope_type", type}, {"factor", 2}}), "rope_type",
            std::string("'") + type + "'");
    Refuses(With(Smallest(), "rope_scaling", {{"type", type}, {"factor", 2}}), "rope_scaling: type",
            std::string("'") + type + "'");
  }
}

TEST(ReadConfig, FeaturesThatAreOffAreAccepted) {
  const std::pair<const char*, Json> accepted[] = {
      {"hidden_act", "silu"},       {"hidden_act", "swish"},        {"quantization_config", nullptr},
      {"sliding_window", 4096},     {"partial_rotary_factor", 0.5}, {"partial_rotary_factor", 1},
      {"pretraining_tp", 2},        {"head_dim", nullptr},          {"num_key_value_heads", nullptr},
      {"rope_parameters", nullptr}, {"attention_bias", nullptr},    {"a_key_of_no_meaning", 3}};
  for (const auto& [key, value] : accepted) EXPECT_NO_THROW(Parse(With(Smallest(), key, value))) << key << " " << value;
}

TEST(ReadConfig, HeadsMustDivide) {
  Refuses(With(Smallest(), "num_key_value_heads", 4), "num_attention_heads", "multiple of num_key_value_heads 4");
  Refuses(With(Smallest(), "num_key_value_heads", 12), "num_attention_heads", "multiple of num_key_value_heads 12");
  Refuses(With(Smallest(), "hidden_size", 50), "hidden_size", "multiple of num_attention_heads 6");
  EXPECT_EQ(Parse(With(With(Smallest(), "hidden_size", 50), "head_dim", 10)).head_dim, 10);
  Refuses(With(Smallest(), "head_dim", 7), "head_dim", "even");
  Refuses(With(Smallest(), "hidden_size", 6), "head_dim", "even");  // 6 / 6 heads
  Refuses(With(With(Smallest("diffllama"), "num_attention_heads", 3), "num_key_value_heads", 1), "num_attention_heads",
          "even");
  EXPECT_NO_THROW(Parse(With(With(Smallest(), "num_attention_heads", 3), "num_key_value_heads", 1)));
  Refuses(With(With(Smallest(), "num_attention_heads", 1 << 20), "head_dim", 1 << 20), "heads x head_dim", "too large");
}

TEST(ReadConfig, UnknownFamiliesAreRefused) {
  for (const char* family : {"gpt2", "Llama", ""}) {
    Refuses(Smallest(family), "model_type", std::string("'") + family + "'");
    Refuses(Smallest(family), "model_type", "expected llama, diffllama, qwen2");
  }
}

TEST(ReadConfig, WrongTypesAreRefusedByKey) {
  Refuses(With(Smallest(), "model_type", 3), "model_type", "expected a string");
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const Json& wrong : {Json("8"), Json(8.5), Json(true), Json::array({8}), Json::object()}) {
      Refuses(With(Smallest(), key, wrong), key, "expected an integer");
    }
    for (const Json& wrong : {Json(-1), Json(int64_t{1} << 40), Json(UINT64_MAX), Json(INT64_MIN)}) {
      Refuses(With(Smallest(), key, wrong), key, "got " + wrong.dump());
    }
  }
  Refuses(With(Smallest("mistral"), "num_hidden_layers", INT32_MAX), "num_hidden_layers", "expected 1 to 65536");
  for (const char* key : {"vocab_size", "num_attention_heads", "num_hidden_layers", "head_dim"})
    Refuses(With(Smallest(), key, 0), key, "got 0");
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias"}) {
    Refuses(With(Smallest(), key, 1), key, "expected true or false");
    Refuses(With(Smallest(), key, "true"), key, "expected true or false");
  }
  for (const Json& wrong : {Json("0.1"), Json(0), Json(-1e-5), Json(false), Json::array()}) {
    Refuses(With(Smallest(), "rms_norm_eps", wrong), "rms_norm_eps", "expected a positive number");
    Refuses(With(Smallest(), "rope_theta", wrong), "rope_theta", "expected a positive number");
  }
  Refuses(With(Smallest(), "hidden_act", 1), "hidden_act", "expected a string");
  Refuses(With(Smallest(), "rope_parameters", "llama3"), "rope_parameters", "expected an object");
  Refuses(With(Smallest(), "rope_scaling", 2.0), "rope_scaling", "expected an object");
  Refuses(With(Smallest(), "rope_scaling", {{"type", 2}}), "rope_scaling: type", "expected a string");
  Refuses(With(Smallest(), "rope_scaling", {{"type", "linear"}, {"factor", "2"}}), "rope_scaling: factor",
          "expected a positive number");
}

Json Scaled(const char* type, double factor) { return {{"rope_type", type}, {"factor", factor}}; }

TEST(ReadConfig, ScalingCountsBesideParametersThatDoNotScale) {
  const Json v5 = With(Smallest(), "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}});
  const ModelConfig both = Parse(With(v5, "rope_scaling", Scaled("linear", 4)));
  EXPECT_EQ(both.rotary.type, RotaryConfig::Type::kLinear);
  EXPECT_EQ(Parse(With(v5, "rope_scaling", Json::object())).rotary.type, RotaryConfig::Type::kDefault);
  EXPECT_NO_THROW(
      Parse(With(With(Smallest(), "rope_scaling", Scaled("linear", 4)), "rope_parameters", Scaled("linear", 4))));
  const Json other[]{Scaled("linear", 2), Scaled("yarn", 4), {{"rope_theta", 500}}};
  for (const Json& parameters : other)
    Refuses(With(With(Smallest(), "rope_scaling", Scaled("linear", 4)), "rope_parameters", parameters), "rope_scaling",
            "expected what rope_parameters says");
}

TEST(ReadConfig, ScaledPositionsReachFurther) {
  EXPECT_EQ(Parse(Smallest()).positions_reached, 2048);
  EXPECT_EQ(Parse(With(Smallest(), "rope_scaling", Scaled("linear", 4))).positions_reached, 8192);
  EXPECT_EQ(Parse(With(Smallest(), "rope_scaling", Scaled("dynamic", 4))).positions_reached, 2048);
  Json yarn = Scaled("yarn", 4);
  EXPECT_EQ(Parse(With(Smallest(), "rope_scaling", yarn)).positions_reached, 8192);
  yarn["original_max_position_embeddings"] = 100;
  EXPECT_EQ(Parse(With(Smallest(), "rope_scaling", yarn)).positions_reached, 2048);
}

TEST(ReadConfig, TokensThatSeeLaterOnesStayWithinAWindow) {
  EXPECT_TRUE(Parse(With(Smallest(), "is_causal", true)).causal);
  for (const Json& no : {Json(false), Json(nullptr)}) {  // transformers reads null as false
    EXPECT_FALSE(Parse(With(Smallest(), "is_causal", no)).causal);
    const ModelConfig slides = Parse(With(With(Smallest("ministral"), "is_causal", no), "num_key_value_heads", 6));
    EXPECT_EQ(slides.positions_reached, 4097);
  }
}

TEST(ReadConfig, Llama3FactorsMustAscend) {
  Refuses(With(Smallest(), "rope_parameters",
               {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
          "high_freq_factor", "more than low_freq_factor 4");
}

TEST(ReadConfig, ABosOutsideTheVocabularyIsNone) {
  for (const int none : {-1, 50}) EXPECT_EQ(Parse(With(Smallest(), "bos_token_id", none)).bos, std::nullopt);
  Refuses(With(Smallest(), "bos_token_id", "1"), "bos_token_id", "expected an integer");
  EXPECT_EQ(Parse(With(Smallest(), "bos_token_id", 49)).bos, 49);
  EXPECT_EQ(Parse(With(Smallest(), "bos_token_id", nullptr)).bos, std::nullopt);
}

TEST(ReadConfig, InvalidConfigsAreRefused) {
  for (const char* text : {"", "{", "[]", "3", "{\"model_type\": \"llama\"} x",
                           "{\"model_type\": \"llama\", \"model_type\": \"diffllama\"}"}) {
    EXPECT_THAT(Call([&] { ParseConfig(text, "c.json"); }), ThrowsMessage<Error>(HasSubstr("c.json"))) << text;
  }
}

TEST(ReadConfig, FoldersWithoutOneAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { LoadConfig(folder / "nowhere"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("nowhere"), HasSubstr("no such folder"))));
  PutFile(folder / "adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "ORG/BASE"})");
  EXPECT_THAT(Call([&] { LoadConfig(folder.path()); }), ThrowsMessage<Error>(HasSubstr("got an adapter of ORG/BASE")));
  std::filesystem::remove(folder / "adapter_config.json");
  EXPECT_THAT(Call([&] { LoadConfig(folder.path()); }), ThrowsMessage<Error>(HasSubstr("config.json")));
  PutFile(folder / "checkpoint_best.pt", "PK");  // DiffCLIP's authors' folders
  EXPECT_THAT(Call([&] { LoadConfig(folder.path()); }),
              ThrowsMessage<Error>(HasSubstr("pickles (*.bin, *.pt) are not supported; try safetensors, of DiffCLIP")));
  PutFile(folder / "config.json", Smallest().dump());
  EXPECT_EQ(LoadConfig(folder.path()).hidden, 48);
}

// Mamba-2's configuration has one where nothing is limited.
TEST(ReadConfig, InfinityIsReadWhereNoNumberIsAskedFor) {
  const TemporaryFolder folder;
  std::string text = Smallest().dump();
  text.pop_back();
  PutFile(folder / "config.json", text + R"(, "time_step_limit": [0.0, Infinity]})");
  EXPECT_EQ(LoadConfig(folder.path()).hidden, 48);
  PutFile(folder / "config.json", text + R"(, "rope_theta": Infinity})");
  EXPECT_THAT(Call([&] { LoadConfig(folder.path()); }),
              ThrowsMessage<Error>(HasSubstr(R"(rope_theta: got "Infinity", expected a positive number)")));
}

// `tare search` took a minute and more to list the sites of such a model, before it looked for the first tensor.
TEST(ReadConfig, CountsThatTheTensorsCannotHoldAreRefused) {
  const struct {
    const char *model, *key, *named;
    int value;
  } cases[] = {{"llama-mha", "num_hidden_layers", "num_hidden_layers", 60000},
               {"llama-mha", "num_attention_heads", "num_attention_heads", 1 << 20},
               {"llama-mha", "intermediate_size", "intermediate_size", 1 << 30},
               {"llama-mha", "vocab_size", "vocab_size", 2147483647},
               {"gpt-oss", "num_local_experts", "number of experts", 16384},
               {"phi3", "num_hidden_layers", "num_hidden_layers", 50000}};
  for (const auto& changed : cases) {
    const TemporaryFolder folder;
    std::filesystem::copy(GoldenFolder(changed.model), folder.path());
    nlohmann::json config = ReadJson(folder / "config.json");
    config[changed.key] = changed.value;
    config["head_dim"] = 8;
    PutFile(folder / "config.json", config.dump());
    EXPECT_THAT(Call([&] { LoadConfig(folder.path()); }),
                ThrowsMessage<Error>(
                    HasSubstr(Formatted("config.json: {}: got {}, more than the ", changed.named, changed.value))))
        << changed.key;
  }
}

}  // namespace
}  // namespace tare::read_config_test
