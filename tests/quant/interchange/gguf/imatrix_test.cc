// SPDX-License-Identifier: Apache-2.0
// Both layouts of one importance matrix (tests/data/gguf/README.md), byte for byte, and files that are damaged.
#include "quant/interchange/gguf/imatrix.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::imatrix_test {
namespace {

using gguf::Imatrix;
using gguf::ReadImatrix;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string Golden(const char* name) { return std::string(TARE_SOURCE_DIR "/tests/data/gguf/") + name; }

TEST(Imatrix, BothLayoutsAreWrittenByteForByte) {
  const TemporaryFolder folder;
  const Imatrix matrix = ReadImatrix(Golden("imatrix.gguf"));
  for (const char* name : {"imatrix.gguf", "imatrix.dat"}) {
    WriteImatrix(matrix, folder / name);
    EXPECT_EQ(GetFile(folder / name), GetFile(Golden(name))) << name;
  }
}

TEST(Imatrix, EntriesAreSumsAndCountsOfEachExpert) {
  const Imatrix matrix = ReadImatrix(Golden("imatrix.gguf"));
  EXPECT_THAT(matrix.datasets, ElementsAre("calibration.txt"));
  EXPECT_EQ(matrix.chunk_count, 3);
  EXPECT_EQ(matrix.chunk_size, 512);
  ASSERT_EQ(matrix.entries.size(), 3u);
  const Imatrix::Entry& down = matrix.entries.at("blk.1.ffn_down_exps.weight");
  EXPECT_EQ(down.sums.size(), 4u * 48);
  ASSERT_EQ(down.counts.size(), 4u);
  for (size_t expert = 0; expert < 4; ++expert) {
    const std::vector<float> means = down.Means(expert, 4);
    ASSERT_EQ(means.size(), 48u);
    if (down.counts[expert] == 0) {
      EXPECT_THAT(means, Each(1.0f)) << "never seen";
    } else {
      EXPECT_EQ(means[7], down.sums[expert * 48 + 7] / down.counts[expert]);
    }
  }
}

TEST(Imatrix, NothingThatIsNoSumIsWritten) {
  const TemporaryFolder folder;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), -1.0f}) {
    const Imatrix matrix{.entries = {{"w", {.sums = {1, bad}, .counts = {1}}}}};
    EXPECT_THAT(Call([&] { WriteImatrix(matrix, folder / "i.dat"); }), ThrowsMessage<Error>(HasSubstr("'w.in_sum2'")));
  }
  EXPECT_TRUE(folder.Names().empty());
}

// The binary layout rounds twice more: two units in the last place.
TEST(Imatrix, TheBinaryLayoutHasTheSameMeans) {
  const Imatrix matrix = ReadImatrix(Golden("imatrix.gguf")), binary = ReadImatrix(Golden("imatrix.dat"));
  EXPECT_EQ(binary.chunk_count, 3);
  EXPECT_EQ(binary.datasets, matrix.datasets);
  for (const auto& [name, entry] : matrix.entries) {
    const size_t experts = entry.counts.size();
    for (size_t expert = 0; expert < experts; ++expert) {
      const std::vector<float> expected = entry.Means(expert, experts),
                               got = binary.entries.at(name).Means(expert, experts);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0x1p-22 * expected[i]) << name;
    }
  }
}

class Damaged : public testing::Test {
 protected:
  void Refused(const std::string& bytes, const char* message) {
    PutFile(folder_ / "i", bytes);
    EXPECT_THAT(Call([&] { ReadImatrix(folder_ / "i"); }), ThrowsMessage<Error>(HasSubstr(message)));
  }
  static std::string With(const std::string& bytes, const std::string& what, const std::string& instead) {
    std::string changed = bytes;
    return changed.replace(changed.find(what), what.size(), instead);
  }
  static std::string Number(int32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
  static std::string Value(float value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

  const TemporaryFolder folder_;
  const std::string gguf_ = GetFile(Golden("imatrix.gguf")), binary_ = GetFile(Golden("imatrix.dat"));
};

TEST_F(Damaged, GgufOfSomethingElseIsRefused) {
  Refused(With(gguf_, "imatrix\x10", "ematrix\x10"), "general.type: got ematrix, expected imatrix");
  Refused(With(gguf_, "attn_q.weight.counts", "attn_q.weight.c0unts"),
          "'blk.0.attn_q.weight': got 64 sums and 0 counts, expected as many sums for each count");
  Refused(With(gguf_, "attn_q.weight.in_sum2", "attn_q.weight.in_sum3"),
          "'blk.0.attn_q.weight': got 0 sums and 1 counts");
  Refused(gguf_.substr(0, 700), "expected inside the file's");
}

TEST_F(Damaged, BinaryIsReadWithinItsBytes) {
  Refused("", "number of weights: got 0 bytes to the end of the file, expected 4");
  Refused(Number(0), "got no weight, expected sums of some");
  Refused(Number(-1), "number of weights: got -1, expected 0 or more");
  Refused(Number(1) + Number(1 << 30), "a weight's name: got 0 bytes to the end of the file, expected 1073741824");
  const std::string one = Number(1) + Number(1) + "w" + Number(2);
  Refused(one + Number(0x7fffffff), "w: got 0 bytes to the end of the file, expected 8589934588");
  Refused(one + Number(0), "'w': got 0 sums and 1 counts");
  Refused(one + Number(1) + Value(-1.0f), "'w.in_sum2': got -1, expected finite values from 0 on");
  Refused(one + Number(1) + Value(std::nanf("")), "'w.in_sum2': got nan");
  const std::string again = Number(1) + "w" + Number(2) + Number(1) + Value(1);
  Refused(Number(2) + again + again, "'w': occurs twice, expected once");
  Refused(binary_ + "x", "got 1 bytes after the last name, expected none");
  PutFile(folder_ / "i", Number(1) + again);
  EXPECT_THAT(ReadImatrix(folder_ / "i").entries.at("w").Means(0, 1), ElementsAre(0.5f)) << "what follows is optional";
}

}  // namespace
}  // namespace tare::imatrix_test
