// SPDX-License-Identifier: Apache-2.0
// o_proj with DEX taken in against modules of its formulas, and in a converted checkpoint; refusals.
#include "experiments/export/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/attention_module.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::dex_test {
namespace {

using attention_module::ExpectNear;
using attention_module::Narrow;
using attention_module::Project;
using attention_module::ReadVariant;
using attention_module::Values;
using attention_module::VariantModule;

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Dex, FoldsAsItsModulesAndComputesTheSame) {
  for (const char* name : {"dex-a", "dex-b"}) {
    SCOPED_TRACE(name);
    VariantModule a = ReadVariant(name);
    std::map<std::string, Values>& t = a.module.tensors;
    const TemporaryFolder folder;
    const std::string of = "model.layers.3.self_attn.dex.";
    PutArrays(folder / "d.safetensors", {{of + "weight", {{a.d, a.d}, Narrow(t["dex.weight"])}},
                                         {of + "lambda_learn", {{}, Narrow(t["dex.lambda"])}},
                                         {of + "head_mask", {{a.count}, Narrow(t["dex.heads"])}}});
    ModelConfig c = LoadConfig(GoldenFolder("llama-mha"));
    c.heads = c.kv_heads = a.count, c.head_dim = a.d;
    std::vector<float> folded = Narrow(t["o_proj.weight"]);
    DexOf(*ArrayFile::Open(folder / "d.safetensors"), c, 3)(folded);
    ExpectNear({folded.begin(), folded.end()}, t["o_proj.folded"], 1e-6);
    ExpectNear(Project(t["o"], {folded.begin(), folded.end()}, a.count * a.d), t["y"]);
  }
}

class DexTest : public testing::Test {
 protected:
  DexTest() {
    const ModelConfig c = LoadConfig(GoldenFolder(kModel));
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer) + ".self_attn.dex.";
      arrays_[name + "weight"] = SomeArray({c.head_dim, c.head_dim}, 0.1f);
      arrays_[name + "lambda_learn"] = {{}, {0.3f + static_cast<float>(layer)}};
      arrays_[name + "head_mask"] = {{c.heads}, std::vector<float>(static_cast<size_t>(c.heads), 1.0f)};
      arrays_[name + "head_mask"].values.front() = 0;
    }
  }
  ConvertSummary Convert(const char* model, const char* to) const {
    PutArrays(folder_ / "dex.safetensors", arrays_);
    return ConvertLayout(GoldenFolder(model), to, folder_ / to, {}, folder_ / "dex.safetensors");
  }
  void Refuses(const char* model, const char* to, const char* why) const {
    EXPECT_THAT(Call([&] { Convert(model, to); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / to));
  }
  static constexpr const char* kModel = "llama-mha";
  static constexpr const char* kFirst = "model.layers.0.self_attn.dex.";
  TemporaryFolder folder_;
  std::map<std::string, TestArray> arrays_;
};

TEST_F(DexTest, ChangesOProjAlone) {
  EXPECT_EQ(Convert(kModel, "llama").folded, LoadConfig(GoldenFolder(kModel)).layers);
  const ModelConfig c = LoadConfig(folder_ / "llama");
  const CheckpointFiles before(GoldenFolder(kModel)), after(folder_ / "llama");
  const std::unique_ptr<ArrayFile> dex = ArrayFile::Open(folder_ / "dex.safetensors");
  for (const auto& [name, tensor] : EditedCheckpoint(GoldenFolder(kModel)).tensors) {
    const std::span<const std::byte> bytes = after.Find(name)->bytes;
    if (!name.contains("o_proj")) {
      EXPECT_TRUE(std::ranges::equal(before.Find(name)->bytes, bytes)) << name;
      continue;
    }
    std::vector<float> expected(tensor.bytes.size() / 4), got(expected.size());
    std::memcpy(expected.data(), tensor.bytes.data(), tensor.bytes.size());
    std::memcpy(got.data(), bytes.data(), bytes.size());
    EXPECT_NE(got, expected);
    DexOf(*dex, c, name.contains("layers.0") ? 0 : 1)(expected);
    EXPECT_EQ(got, expected) << name;
  }
}

TEST_F(DexTest, OfADifferentialCopyIsDoubled) {
  Convert(kModel, "llama");
  EXPECT_EQ(Convert(kModel, "diff_v2").doubled, LoadConfig(GoldenFolder(kModel)).layers);
  const CheckpointFiles once(folder_ / "llama"), twice(folder_ / "diff_v2");
  const auto first = [](const CheckpointFiles& files) {
    float value = 0;
    std::memcpy(&value, files.Find("model.layers.1.self_attn.o_proj.weight")->bytes.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(first(twice), 2 * first(once));
}

TEST_F(DexTest, RefusesWhatItDoesNotCover) {
  Refuses("diffllama-mha", "diffllama", "expected heads of one map, without a gate");
  Refuses("qwen3-gate-head", "qwen3", "expected heads of one map, without a gate");
  arrays_[std::string(kFirst) + "head_mask"].values.back() = 0.5f;
  Refuses(kModel, "llama", "layers.0.self_attn.dex.head_mask: got other values, expected 0 and 1");
  arrays_[std::string(kFirst) + "head_mask"].values.back() = 1;
  arrays_[std::string(kFirst) + "weight"].values.back() = INFINITY;
  Refuses(kModel, "llama", "layers.0.self_attn.dex.weight: got NaN or infinity");
  arrays_[std::string(kFirst) + "weight"] = SomeArray({2, 3});
  Refuses(kModel, "llama", "layers.0.self_attn.dex.weight: got shape [2, 3], expected shape [");
  arrays_.erase(std::string(kFirst) + "weight");
  Refuses(kModel, "llama", "layers.0.self_attn.dex.weight: got no such array");
}

}  // namespace
}  // namespace tare::dex_test
