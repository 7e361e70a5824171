// SPDX-License-Identifier: Apache-2.0
// Equal weights give equal results: one model of every family, its values such that F32, BF16 and F16 hold them, as one
// file, as shards, in each type, under other names, with a tied head written out, and as GGUF: logits and perplexity
// byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "experiments/export/gguf/export.h"
#include "experiments/model/plan_run.h"
#include "experiments/tasks/evaluation.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::equal_weights_test {
namespace {

namespace fs = std::filesystem;

bool IsFloat(DType type) { return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16; }

// Eight bits of a value, as BF16 has; below F16's normal values, 0.
float Exact(float value) {
  const float rounded = FloatFromBf16(Bf16FromFloat(value));
  return std::fabs(rounded) < 0x1p-14f ? 0.0f : rounded;
}

EditedCheckpoint::Tensor As(DType type, const EditedCheckpoint::Tensor& tensor) {
  if (!IsFloat(tensor.dtype)) return tensor;
  EditedCheckpoint::Tensor to{type, tensor.shape, {}};
  const auto count = static_cast<size_t>(*ElementCount(tensor.shape));
  to.bytes.resize(count * (type == DType::kF32 ? 4 : 2));
  for (size_t i = 0; i < count; ++i) {
    const float value = Exact(tensor.Value(i));
    to.SetBits(i, type == DType::kF32    ? std::bit_cast<uint32_t>(value)
                  : type == DType::kBF16 ? Bf16FromFloat(value)
                                         : F16FromFloat(value));
  }
  return to;
}

struct Results {
  std::vector<float> logits;
  std::string figures;
  friend bool operator==(const Results&, const Results&) = default;
};

class StoredWeights : public testing::Test {
 protected:
  explicit StoredWeights(const std::string& golden) : golden_(golden), plain_(GoldenFolder(golden)) {
    for (auto& [name, tensor] : plain_.tensors) tensor = As(DType::kF32, tensor);
  }

  Results ResultsOf(const std::string& name) const {
    Model model(folder_ / name);
    Results results{.logits = LogitsOf(model, GoldenBatch(golden_)), .figures = {}};
    PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
    Evaluation evaluation(model, run, {});
    const std::string ids = (GoldenFolder(golden_) / "expected.safetensors").string();
    evaluation.Run(ReadTasks(ParseTasks("perplexity=" + ids), model, {})[0], {});
    results.figures = evaluation.json()["tasks"].dump();
    return results;
  }

  const std::string golden_;
  TemporaryFolder folder_;
  EditedCheckpoint plain_;  // in F32
};

class EqualWeights : public StoredWeights, public testing::WithParamInterface<const char*> {
 protected:
  EqualWeights() : StoredWeights(GetParam()) {}

  // The plain model's tensors, each in a type.
  template <typename TypeOf>
  void Write(const std::string& name, TypeOf type_of) const {
    EditedCheckpoint changed = plain_;
    for (auto& [tensor_name, tensor] : changed.tensors) tensor = As(type_of(tensor), tensor);
    changed.Write(folder_ / name);
  }

  void WriteShards() const {
    EditedCheckpoint parts[] = {plain_, plain_, plain_};
    nlohmann::json index{{"weight_map", nlohmann::json::object()}};
    size_t number = 0;
    for (const auto& [name, tensor] : plain_.tensors) {
      for (size_t part = 0; part < 3; ++part) {
        if (part != number % 3) parts[part].tensors.erase(name);
      }
      index["weight_map"][name] = "part" + std::to_string(number++ % 3) + ".safetensors";
    }
    const fs::path shards = folder_ / "shards";
    for (size_t part = 0; part < 3; ++part) {
      parts[part].Write(shards);
      fs::rename(shards / "model.safetensors", shards / ("part" + std::to_string(part) + ".safetensors"));
    }
    PutFile(shards / "model.safetensors.index.json", index.dump());
  }

  // Names of layers by a pattern, which stands for all of them.
  void WriteRenamed() const {
    EditedCheckpoint renamed = plain_;
    renamed.tensors.clear();
    nlohmann::json names;
    for (const auto& [name, tensor] : plain_.tensors) {
      renamed.tensors["their." + name] = tensor;
      std::string ours = name;
      if (const size_t at = ours.find("layers."); at != ours.npos)
        ours.replace(at + 7, ours.find('.', at + 7) - at - 7, "{}");
      names["names"][ours] = "their." + ours;
    }
    renamed.Write(folder_ / "renamed");
    PutFile(folder_ / "renamed/tensor-names.json", names.dump());
  }
};

// One test of all forms, as each needs the plain model's results.
TEST_P(EqualWeights, InOtherTypesShardsAndUnderOtherNames) {
  plain_.Write(folder_ / "plain");
  Write("bf16", [](const auto&) { return DType::kBF16; });
  Write("f16", [](const auto&) { return DType::kF16; });
  Write("mixed", [](const auto& t) { return t.shape.size() > 1 ? DType::kBF16 : DType::kF32; });
  WriteShards();
  WriteRenamed();
  const Results expected = ResultsOf("plain");
  for (const char* name : {"bf16", "f16", "mixed", "shards", "renamed"}) EXPECT_EQ(ResultsOf(name), expected) << name;
}

TEST_P(EqualWeights, WithATiedHeadWrittenOut) {
  EditedCheckpoint& tied = plain_;
  tied.config["tie_word_embeddings"] = true;
  tied.Write(folder_ / "tied");
  const TensorNames& names = FamilyOf(LoadConfig(folder_ / "tied")).names;
  tied.tensors.erase(std::string(names.head));
  tied.Write(folder_ / "tied");
  tied.config["tie_word_embeddings"] = false;
  tied.tensors[std::string(names.head)] = tied.tensors.at(std::string(names.embedding));
  tied.Write(folder_ / "untied");
  EXPECT_EQ(ResultsOf("untied"), ResultsOf("tied"));
}

INSTANTIATE_TEST_SUITE_P(Golden, EqualWeights, testing::ValuesIn(kGoldenCheckpoints), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// A model of each family that llama.cpp knows, and what of its configuration a GGUF file cannot hold.
struct Known {
  const char* golden;
  const char* patch;
};
constexpr Known kKnown[] = {
    {"llama-mha", "{}"},
    {"llama-gqa", "{}"},
    {"llama-old-config", "{}"},
    {"olmo2", "{}"},
    {"olmo3", "{}"},
    {"granite", "{}"},
    {"phi3", "{}"},
    {"mixtral", "{}"},
    {"mistral", R"({"sliding_window": null})"},
    {"qwen2", R"({"use_sliding_window": false, "sliding_window": null, "layer_types": null})"},
    {"qwen3", R"({"attention_bias": false})"},
    {"qwen3-moe", R"({"norm_topk_prob": true})"},
    {"gemma3", R"({"query_pre_attn_scalar": 16, )"
               R"("layer_types": ["sliding_attention", "sliding_attention", "sliding_attention"]})"},
    {"gpt-oss", R"({"rope_parameters": {"beta_fast": 32}})"},
};

class EqualGguf : public StoredWeights, public testing::WithParamInterface<Known> {
 protected:
  EqualGguf() : StoredWeights(GetParam().golden) {}
};

TEST_P(EqualGguf, InEachType) {
  plain_.config.update(nlohmann::json::parse(GetParam().patch), true);
  if (plain_.config.value("attention_bias", true) == false)
    std::erase_if(plain_.tensors, [](const auto& tensor) { return tensor.first.ends_with("_proj.bias"); });
  plain_.Write(folder_ / "plain");
  const Results expected = ResultsOf("plain");
  for (const char* type : {"F32", "F16", "BF16"}) {
    ConvertToGguf(folder_ / "plain", type, "test", folder_ / "m.gguf");
    EXPECT_EQ(ResultsOf("m.gguf"), expected) << type;
    fs::remove(folder_ / "m.gguf");
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, EqualGguf, testing::ValuesIn(kKnown), [](const auto& test) {
  std::string name = test.param.golden;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace tare::equal_weights_test
