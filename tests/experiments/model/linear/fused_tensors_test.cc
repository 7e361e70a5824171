// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/fused_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/model/config/read_config.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::fused_tensors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string kLayer1 = "model.layers.1.";

TEST(FusedTensorsTest, PartsAreRowsInOrder) {
  const std::filesystem::path folder = GoldenFolder("phi4flash");
  const Checkpoint whole(folder);
  const Checkpoint split = OpenSplit(folder, LoadConfig(folder));
  for (const std::string name : {"attn.Wqkv.weight", "attn.Wqkv.bias", "mlp.fc1.weight"}) {
    const std::string base = name.substr(0, name.rfind('.')), kind = name.substr(name.rfind('.'));
    const TensorView& fused = *whole.Find(kLayer1 + name);
    EXPECT_EQ(split.Find(kLayer1 + name), nullptr);
    const std::byte* next = fused.bytes.data();
    for (const char* part : {".q", ".k", ".v", ".gate", ".up"}) {
      const TensorView* rows = split.Find(kLayer1 + base + part + kind);
      if (rows == nullptr) continue;
      EXPECT_TRUE(std::ranges::equal(rows->bytes, std::span(next, rows->bytes.size()))) << base << part;
      next += rows->bytes.size();
    }
    EXPECT_EQ(next, fused.bytes.data() + fused.bytes.size()) << name;
  }
}

TEST(FusedTensorsTest, OthersStayAsTheyAre) {
  EXPECT_THAT(FusedTensors(LoadConfig(GoldenFolder("llama-gqa"))), IsEmpty());
  const std::filesystem::path folder = GoldenFolder("phi4flash");
  const Checkpoint whole(folder), split = OpenSplit(folder, LoadConfig(folder));
  EXPECT_EQ(split.total_bytes(), whole.total_bytes());
  EXPECT_TRUE(split.Has("model.layers.0.attn.in_proj.weight"));
  EXPECT_EQ(split.Find("model.layers.7.attn.Wqkv.q.weight")->shape[0], 64);  // shared keys: queries alone
  EXPECT_FALSE(split.Has("model.layers.7.attn.Wqkv.k.weight"));
}

TEST(FusedTensorsTest, WrongRowsAreRefused) {
  EditedCheckpoint checkpoint(GoldenFolder("phi4flash"));
  EditedCheckpoint::Tensor& fused = checkpoint.tensors.at(kLayer1 + "attn.Wqkv.weight");
  const TemporaryFolder folder;
  fused.shape = {64, 128};
  checkpoint.Write(folder / "m");
  EXPECT_THAT(
      Call([&] { OpenSplit(folder / "m", LoadConfig(folder / "m")); }),
      ThrowsMessage<Error>(HasSubstr(
          "tensor 'model.layers.1.attn.Wqkv.weight': got shape [64, 128], expected 128 rows from config.json")));
  fused.shape = {128, 64};
  checkpoint.tensors[kLayer1 + "attn.Wqkv.q.weight"] = fused;
  checkpoint.Write(folder / "n");
  EXPECT_THAT(Call([&] { OpenSplit(folder / "n", LoadConfig(folder / "n")); }),
              ThrowsMessage<Error>(HasSubstr("expected one of them")));
}

}  // namespace
}  // namespace tare::fused_tensors_test
