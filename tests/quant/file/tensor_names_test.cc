// SPDX-License-Identifier: Apache-2.0
// A checkpoint with foreign names: read as in the page's example, and refused with the place and both names.
#include "quant/file/tensor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::tensor_names_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TensorNamesTest : public testing::Test {
 protected:
  TensorNamesFile Put(const std::string& text) {
    PutFile(folder_ / TensorNamesFile::kName, text);
    return *TensorNamesFile::In(folder_ / ".");
  }
  void Refuses(const std::string& text, const std::string& why, const std::vector<std::string>& stored = {}) {
    EXPECT_THAT(Call([&] { Put(text).OursOf(stored); }),
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("tensor-names.json: "), HasSubstr(why))))
        << text;
  }
  TemporaryFolder folder_;
};

TEST_F(TensorNamesTest, LayersAndWholeNames) {
  const auto ours = Put(R"({"names": {"a.{}.q": "b.{}.wq", "norm": "n"}, "ignore": ["b.{}.mask"]})")
                        .OursOf({"b.0.wq", "b.12.wq", "n", "b.0.mask", "else", "b.x.wq"});
  EXPECT_EQ(ours.at("b.0.wq"), "a.0.q");
  EXPECT_EQ(ours.at("b.12.wq"), "a.12.q");
  EXPECT_EQ(ours.at("n"), "norm");
  EXPECT_EQ(ours.at("b.0.mask"), "");
  EXPECT_EQ(ours.at("else"), "else");
  EXPECT_EQ(ours.at("b.x.wq"), "b.x.wq");  // x is not a number
}

TEST_F(TensorNamesTest, ConfigIsPutOver) {
  const TensorNamesFile file = Put(R"({"config": {"model_type": "diff_v1", "hidden_size": 32}})");
  const auto json = nlohmann::json::parse(file.ConfigText(R"({"model_type": "x", "dim": 32})", "c"));
  EXPECT_EQ(json, nlohmann::json({{"model_type", "diff_v1"}, {"hidden_size", 32}, {"dim", 32}}));
  EXPECT_EQ(nlohmann::json::parse(file.ConfigText(std::nullopt, "c"))["hidden_size"], 32);
  EXPECT_FALSE(TensorNamesFile::In(folder_ / "nowhere").has_value());
}

TEST_F(TensorNamesTest, WhatIsWrongIsNamed) {
  Refuses("[1]", "got array, expected an object");
  Refuses("{\"names\": ", "");
  Refuses(R"({"nmaes": {}})", "got key 'nmaes', expected names, ignore or config");
  Refuses(R"({"names": []})", "names: got array, expected an object");
  Refuses(R"({"ignore": {}})", "ignore: got object, expected a list");
  Refuses(R"({"names": {"a": 3}})", "names: 'a': got 3, expected a tensor's name");
  Refuses(R"({"names": {"a.{}": "b"}})", "names: 'a.{}': got 'b', expected {} for a layer's number once in both");
  Refuses(R"({"names": {"a.{}.{}": "b.{}.{}"}})", "once in both or in neither");
  Refuses(R"({"names": {"q.{}": "b.{}.wq"}})",
          "names: 'q.{}': got 'b.{}.wq', which the checkpoint does not have; the nearest are 'b.0.w', 'norm'",
          {"b.0.w", "norm"});
  Refuses(R"({"names": {"q": "x", "k": "x"}})", "tensor 'x': got 'k' and 'q' for it, expected one name", {"x"});
  Refuses(R"({"names": {"q": "x"}})", "names: 'q': got 'q' and 'x', expected one tensor", {"q", "x"});
  Refuses(R"({"ignore": ["y"]})", "ignore: got 'y', which the checkpoint does not have; the nearest is 'x'", {"x"});
}

}  // namespace
}  // namespace tare::tensor_names_test
