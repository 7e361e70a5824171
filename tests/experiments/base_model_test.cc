// SPDX-License-Identifier: Apache-2.0
// Folders that were saved from a base class: names without "model.", and perhaps no LM head.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::base_model_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> FolderLogits(const std::filesystem::path& folder, const TokenBatch& batch) {
  Model model(folder);
  return LogitsOf(model, batch);
}

TEST(BaseModel, NamesOfABaseClassGetItsPrefix) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  std::map<std::string, EditedCheckpoint::Tensor> bare;
  for (const auto& [name, tensor] : checkpoint.tensors)
    bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  checkpoint.tensors = {bare.begin(), bare.end()};
  checkpoint.Write(folder / "m");
  const TokenBatch batch = GoldenBatch("llama-mha");
  EXPECT_EQ(FolderLogits(folder / "m", batch), FolderLogits(GoldenFolder("llama-mha"), batch));
}

// As intfloat/e5-mistral-7b-instruct: no prefix, no LM head, no tied embeddings.
TEST(BaseModel, OfABaseClassHasStatesAndNoProbabilities) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  ASSERT_EQ(checkpoint.tensors.erase("lm_head.weight"), 1u);
  checkpoint.config["tie_word_embeddings"] = false;
  checkpoint.Write(folder / "causal");
  EXPECT_THAT(Call([&] { Model(folder / "causal"); }), ThrowsMessage<Error>(HasSubstr("architectures in config.json")));
  checkpoint.config["architectures"] = {"LlamaModel"};
  checkpoint.Write(folder / "m");
  Model base(folder / "m"), whole(GoldenFolder("llama-mha"));
  const TokenBatch batch = GoldenBatch("llama-mha");
  base.Forward(batch), whole.Forward(batch);
  for (int64_t row = 0; row < batch.Rows(); ++row)
    EXPECT_TRUE(std::equal(base.FinalState(row), base.FinalState(row) + base.config().hidden, whole.FinalState(row)));
  EXPECT_THAT(Call([&] { LogitsOf(base, batch); }), ThrowsMessage<Error>(HasSubstr("'lm_head.weight': missing")));
  checkpoint = EditedCheckpoint(GoldenFolder("llama-mha"));
  checkpoint.config["architectures"] = {"LlamaModel"};
  checkpoint.Write(folder / "with");
  EXPECT_EQ(FolderLogits(folder / "with", batch), FolderLogits(GoldenFolder("llama-mha"), batch));
}

}  // namespace
}  // namespace tare::base_model_test
