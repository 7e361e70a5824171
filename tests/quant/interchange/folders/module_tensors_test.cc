// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/module_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::module_tensors_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ModuleTensorsTest : public testing::Test {
 protected:
  ModuleTensorsTest() {
    const std::vector<std::byte> bytes(8);
    WriteSafetensors(folder_ / "model.safetensors", {{"a.b.codes", DType::kI32, {1, 2}, bytes},
                                                     {"a.b.scale", DType::kF32, {2}, bytes},
                                                     {"c.codes", DType::kI32, {2, 0}, {}},
                                                     {"codes", DType::kI32, {2}, bytes}});
    files_.emplace(folder_.path());
    tensors_.emplace(*files_, "folder");
  }

  TemporaryFolder folder_;
  std::optional<CheckpointFiles> files_;
  std::optional<ModuleTensors> tensors_;
};

TEST_F(ModuleTensorsTest, FindsPartsOfModules) {
  EXPECT_THAT(tensors_->ModulesWith("codes"), ElementsAre("a.b", "c"));
  EXPECT_EQ(tensors_->Find("a.b", "zeros"), nullptr);
  EXPECT_FALSE(tensors_->IsTaken("a.b.codes"));
  EXPECT_EQ(tensors_->TakeMatrix("a.b", "codes", {DType::kI32}).name, "a.b.codes");
  EXPECT_TRUE(tensors_->IsTaken("a.b.codes"));
  EXPECT_NO_THROW(tensors_->CheckNothingLeft({"zeros"}));
}

TEST_F(ModuleTensorsTest, RefusesByName) {
  const auto refused = [](auto call, const char* why) { EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(why))); };
  refused([&] { tensors_->CheckNothingLeft({"scale"}); }, "tensor 'a.b.scale': left over");
  refused([&] { tensors_->Take("a.b", "zeros", {DType::kI32}); }, "folder: tensor 'a.b.zeros': missing");
  refused([&] { tensors_->Take("a.b", "codes", {DType::kF16, DType::kF32}); }, "got dtype I32, expected F16 or F32");
  refused([&] { tensors_->Take("c", "codes", {DType::kI32}); }, "got shape [2, 0], expected at least one element");
  refused([&] { tensors_->TakeMatrix("a.b", "scale", {DType::kF32}); }, "got shape [2], expected a matrix");
  refused([&] { tensors_->Require(*tensors_->Find("a.b", "scale"), {3}, "so"); },
          "tensor 'a.b.scale': got shape [2], expected [3]: so");
}

}  // namespace
}  // namespace tare::module_tensors_test
