// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::verify_test {
namespace {

using testing::HasSubstr;

class VerifyTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        CallTare({"quantize", GoldenFolder("llama-mha"), "--plan", "weights=int4/channel", "--out", file_}).exit_code,
        0);
  }
  const TemporaryFolder folder_;
  const std::string file_ = folder_ / "q.h5";
};

TEST_F(VerifyTest, AWholeFileIsWhole) {
  const Outcome verified = CallTare({"verify", file_});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("q.h5: whole; "));
  EXPECT_THAT(verified.out, HasSubstr("schema tare.quantized/6"));
  const auto json = nlohmann::json::parse(CallTare({"verify", file_, "--json", "-"}).out);
  EXPECT_EQ(json["schema"], "tare.verify/1");
  EXPECT_EQ(json["whole"], true);
  EXPECT_GT(json["datasets"], 10);
}

TEST_F(VerifyTest, ADamagedFileIsExit1) {
  std::string bytes = GetFile(file_);
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  PutFile(file_, bytes);
  const Outcome damaged = CallTare({"verify", file_});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err, HasSubstr("damaged"));
  EXPECT_EQ(CallTare({"verify", folder_ / "none.h5"}).exit_code, 1);
}

}  // namespace
}  // namespace tare::verify_test
