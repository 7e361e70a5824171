// SPDX-License-Identifier: Apache-2.0
// tare convert as a user runs it, and a checkpoint with foreign names in every command that opens one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "tests/support/arrays.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::convert_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConvertCommand, AFolderIsCompleteOrAbsent) {
  const TemporaryFolder folder;
  const Outcome made =
      CallTare({"convert", GoldenFolder("diff-v1-gqa"), "--to", "diffllama", "--out", folder / "hf", "--json", "-"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(folder.Names(), ElementsAre("hf"));
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json["from"], "diff_v1");
  EXPECT_EQ(json["folded"], 2);
  const Outcome inspected = CallTare({"inspect", folder / "hf"});
  EXPECT_THAT(inspected.out, HasSubstr("diffllama"));
  const Outcome again = CallTare({"convert", GoldenFolder("diff-v1-gqa"), "--to", "diffllama", "--out", folder / "hf"});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists already and would be overwritten"));
  const Outcome refused =
      CallTare({"convert", GoldenFolder("diff-v2-gqa"), "--to", "diffllama", "--out", folder / "no"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("that layout cannot express it"));
  EXPECT_THAT(folder.Names(), ElementsAre("hf"));
}

TEST(ConvertCommand, ALlamaAsDifferential) {
  const TemporaryFolder folder;
  const std::string llama = GoldenFolder("convert/llama-a");
  const Outcome made = CallTare({"convert", llama, "--to", "diff_v2", "--out", folder / "d"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("4 with rows reordered, 2 doubled: two equal maps for each head, lambda 1/2"));
  EXPECT_THAT(CallTare({"inspect", folder / "d"}).out, HasSubstr("diff_v2"));
  EXPECT_EQ(CallTare({"convert", llama, "--to", "diffllama", "--out", folder / "n"}).exit_code, 1);
  EXPECT_THAT(folder.Names(), ElementsAre("d"));
  const ModelConfig c = LoadConfig(llama);
  std::map<std::string, TestArray> dex;
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".self_attn.dex.";
    dex[name + "weight"] = SomeArray({c.head_dim, c.head_dim}, 0.1f);
    dex[name + "lambda_learn"] = {{}, {0.5f}};
    dex[name + "head_mask"] = {{c.heads}, std::vector<float>(static_cast<size_t>(c.heads), 1.0f)};
  }
  PutArrays(folder / "dex.safetensors", dex);
  const Outcome folded =
      CallTare({"convert", llama, "--to", "diff_v2", "--dex", folder / "dex.safetensors", "--out", folder / "folded"});
  EXPECT_THAT(folded.out, HasSubstr("2 with a head norm or DEX taken in, in F32, 2 doubled: two equal maps"));
}

TEST(ConvertCommand, StatisticsBecomeAnImatrixThatQuantizeTakes) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 3, 40);
  const std::string model = GoldenFolder("diffllama-gqa");
  ASSERT_EQ(CallTare({"stats", model, "--input", folder / "ids.safetensors", "--out", folder / "s.h5"}).exit_code, 0);
  for (const char* name : {"i.gguf", "i.dat"}) {
    const auto make = [&](std::vector<std::string> with) {
      with.insert(with.begin(),
                  {"convert", model, "--to", "imatrix", "--stats", folder / "s.h5", "--out", folder / name});
      return CallTare(with);
    };
    EXPECT_THAT(make({}).out, HasSubstr("sums over 120 positions"));
    // A binary file says too late whose it is.
    EXPECT_EQ(make({}).exit_code, std::string(name) == "i.dat" ? 1 : 0);
    EXPECT_THAT(make({"--force"}).out, HasSubstr("(replaced)")) << name;
    const Outcome quantized = CallTare({"quantize", model, "--plan", "weights=int4/group16+mse", "--imatrix",
                                        folder / name, "--out", folder / "q.h5"});
    EXPECT_EQ(quantized.exit_code, 0) << quantized.err;
  }
  EXPECT_EQ(CallTare({"convert", model, "--to", "imatrix", "--out", folder / "n.gguf"}).exit_code, 2);
  EXPECT_EQ(CallTare({"convert", model, "--to", "gguf", "--stats", folder / "s.h5", "--out", "n"}).exit_code, 2);
  const Outcome other = CallTare({"convert", GoldenFolder("llama-gqa"), "--to", "imatrix", "--stats", folder / "s.h5",
                                  "--out", folder / "n.gguf"});
  EXPECT_THAT(other.err, HasSubstr("s.h5: statistics of weights"));
}

TEST(ConvertCommand, ToGgufWritesOneFile) {
  const TemporaryFolder folder;
  const std::filesystem::path pair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
  const Outcome made =
      CallTare({"convert", pair, "--to", "gguf", "--type", "Q8_0", "--out", folder / "m.gguf", "--json", "-"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json["tensors"]["Q8_0"], 25);
  EXPECT_EQ(json["tensors"]["F16"], 4);  // rows of 688
  EXPECT_TRUE(json["has_tokenizer"]);
  const Outcome shown = CallTare({"convert", pair, "--to", "gguf", "--out", folder / "f.gguf"});
  EXPECT_THAT(shown.out, testing::ContainsRegex("16.00 bits per weight, error of the weights [0-9][-0-9.e]*\n"));
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("m.gguf", "f.gguf"));
  const Outcome usage = CallTare({"convert", pair, "--to", "llama", "--type", "F32", "--out", folder / "n"});
  EXPECT_EQ(usage.exit_code, 2);
  EXPECT_THAT(usage.err, HasSubstr("--type: has no effect without --to gguf"));
  EXPECT_EQ(CallTare({"convert", pair, "--to", "gguf", "--type", "Q2_K", "--out", folder / "n"}).exit_code, 2);
  EXPECT_EQ(CallTare({"convert", pair, "--to", "gguf", "--dex", "d.safetensors", "--out", folder / "n"}).exit_code, 2);
  const Outcome own = CallTare({"convert", folder / "m.gguf", "--to", "gguf", "--out", folder / "m.gguf"});
  EXPECT_EQ(own.exit_code, 1);
  EXPECT_THAT(own.err, HasSubstr("is both an input and an output"));
}

// The example of the page, on tensors renamed as it says.
class ForeignNames : public testing::Test {
 protected:
  ForeignNames() {
    std::ifstream page(TARE_SOURCE_DIR "/docs/reference/tensor-names.md");
    std::stringstream text;
    text << page.rdbuf();
    const std::string all = text.str();
    const size_t begin = all.find("```json") + 7, end = all.find("```", begin);
    names_ = nlohmann::json::parse(all.substr(begin, end - begin));
    for (auto& [name, tensor] : source_.tensors) foreign_.tensors.emplace(Foreign(name), tensor);
    for (const char* layer : {"0", "1"})
      foreign_.tensors["blocks." + std::string(layer) + ".attn.freqs"] = {DType::kF32, {2}, std::vector<std::byte>(8)};
    foreign_.config = {{"attn_family", "diff_attn"}};
  }
  std::string Foreign(const std::string& ours) const {
    std::string pattern = ours, number;
    if (const size_t at = ours.find("layers."); at != ours.npos)
      number = ours.substr(at + 7, 1), pattern.replace(at + 7, 1, "{}");
    std::string theirs = names_["names"].at(pattern);
    if (!number.empty()) theirs.replace(theirs.find("{}"), 2, number);
    return theirs;
  }
  void Write() const {
    foreign_.Write(folder_ / "m");
    PutFile(folder_ / "m" / "tensor-names.json", names_.dump());
  }
  void Refuses(const std::string& why) const {
    Write();
    const Outcome outcome = CallTare({"inspect", folder_ / "m"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
  EditedCheckpoint source_{GoldenFolder("diff-v1-mha")}, foreign_ = [] {
    EditedCheckpoint empty(GoldenFolder("diff-v1-mha"));
    empty.tensors.clear();
    return empty;
  }();
  nlohmann::json names_;
  TemporaryFolder folder_;
};

TEST_F(ForeignNames, EveryCommandReadsThem) {
  Write();
  PutManyIds(folder_ / "i.safetensors", 2, 20);
  const auto nll = [&](const std::filesystem::path& model) {
    const Outcome outcome =
        CallTare({"eval", model, "--tasks", "perplexity=" + (folder_ / "i.safetensors").string(), "--json", "-"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["tasks"]["perplexity:i"]["nll"].get<double>();
  };
  const double expected = nll(GoldenFolder("diff-v1-mha"));
  EXPECT_EQ(nll(folder_ / "m"), expected);
  ASSERT_EQ(
      CallTare({"quantize", folder_ / "m", "--plan", "weights=int8/channel", "--out", folder_ / "q.h5"}).exit_code, 0);
  const double rounded = nll(folder_ / "q.h5");
  EXPECT_NEAR(rounded, expected, 0.1);
  EXPECT_GT(std::abs(rounded - expected), 1e-6);  // codes of 8 bits, not f32
  ASSERT_EQ(CallTare({"convert", folder_ / "m", "--to", "diff_v1", "--out", folder_ / "own"}).exit_code, 0);
  EXPECT_EQ(nll(folder_ / "own"), expected);
}

TEST_F(ForeignNames, WhatIsWrongIsSaid) {
  const nlohmann::json good = names_;
  names_["names"]["model.layers.{}.self_attn.q_proj.weight"] = "blocks.{}.attn.wqq.weight";
  Refuses("got 'blocks.{}.attn.wqq.weight', which the checkpoint does not have; the nearest are 'blocks.0.attn.w");
  names_ = good;
  names_["names"].erase("model.layers.{}.self_attn.q_proj.weight");
  Refuses("tensor 'model.layers.0.self_attn.q_proj.weight': missing; expected shape [32, 32]; the nearest are '");
  names_ = good;
  names_["names"]["model.layers.{}.self_attn.qq.weight"] = "blocks.{}.attn.wq.weight";
  Refuses("for it, expected one name");
  names_ = good;
  names_.erase("ignore");
  Refuses("tensor 'blocks.0.attn.freqs': not part of the model");
  names_ = good;
  names_["config"]["hidden_size"] = 64;
  Refuses("got shape [97, 32], expected [97, 64] from config.json");
  names_["config"]["hidden_size"] = 32, names_["config"]["model_type"] = "unheard";
  Refuses("config.json: model_type: got 'unheard', expected llama");
}

}  // namespace
}  // namespace tare::convert_test
