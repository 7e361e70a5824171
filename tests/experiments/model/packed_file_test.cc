// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/packed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::packed_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const PackedSource kSource{"0123", "89ab", "weights=int4/group16+zero", "f32"};

class PackedFileTest : public ::testing::Test {
 protected:
  PackedFileTest() {
    for (const auto& [name, format, out, in, group] : {std::tuple{"a.weight", "int4", 65, 48, 16},
                                                       {"b.weight", "int6", 1, 17, 17},
                                                       {"c.weight", "int8", 128, 64, 32},
                                                       {"d.weight", "int4+zero", 70, 64, 16}})
      matrices_.emplace_back(name,
                             RandomQuantized(*ParseMatrixFormat(format), out, in, group, static_cast<unsigned>(in)));
    PackedFileWriter file(path_, kSource, {"a.weight", "b.weight", "c.weight", "d.weight", "not added"});
    for (const auto& [name, matrix] : matrices_) file.Add(name, PackedMatrix(matrix.view()));
    file.Commit();
  }
  void ExpectRefused(const PackedSource& source, const char* why) const {
    EXPECT_THAT(Call([&] { PackedFile file(path_, source); }),
                ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr(why))));
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "packed";
  std::vector<std::pair<std::string, QuantizedMatrixBuffer>> matrices_;
};

TEST_F(PackedFileTest, GivesBackEveryMatrix) {
  const PackedFile file(path_, kSource);
  for (const auto& [name, matrix] : matrices_) {
    const PackedMatrix expected(matrix.view());
    const std::optional<PackedMatrix> found = file.Find(name);
    ASSERT_TRUE(found) << name;
    const PackedMatrix::Parts got = found->parts(), want = expected.parts();
    EXPECT_EQ(got.format, want.format);
    EXPECT_EQ(std::tuple(got.out, got.in, got.groups), std::tuple(want.out, want.in, want.groups));
    EXPECT_TRUE(std::ranges::equal(got.codes, want.codes)) << name;
    EXPECT_TRUE(std::ranges::equal(got.scales, want.scales)) << name;
    EXPECT_TRUE(std::ranges::equal(got.offsets, want.offsets)) << name;
  }
  EXPECT_FALSE(file.Find("not added"));
}

TEST_F(PackedFileTest, OthersAreRefused) {
  const auto other = [](std::string PackedSource::* field, const char* value) {
    PackedSource source = kSource;
    source.*field = value;
    return source;
  };
  for (const auto field : {&PackedSource::weights_sha256, &PackedSource::config_sha256})
    ExpectRefused(other(field, "4567"), "got packed codes of another checkpoint, expected MODEL's; try another name");
  ExpectRefused(other(&PackedSource::rules, "weights=int4/group32"),
                "got packed codes under 'weights=int4/group16+zero', expected 'weights=int4/group32'");
  ExpectRefused(other(&PackedSource::math, "bf16"), "got packed codes of --math f32, expected bf16");
  WriteSafetensors(path_, {});
  ExpectRefused(kSource, "got schema '', expected 'tare.packed/2'");
}

// Any changed byte is found: in the header by its reader or as another hash, in codes and scales by their hash.
TEST_F(PackedFileTest, ADamagedFileIsRefused) {
  const std::string whole = GetFile(path_);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  ASSERT_EQ((8 + header) % 4096, 0u);
  ASSERT_GT(whole.size(), 8 + header + 20 * 997);
  for (size_t at = 8 + header; at < whole.size(); at += 997) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    PutFile(path_, damaged);
    ExpectRefused(kSource, "than were written, expected those; try again without the file");
  }
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string damaged = whole;
    damaged.replace(damaged.find(from), from.size(), to);
    PutFile(path_, damaged);
  };
  replaced("int4 65 48 3", "int4 65 48 4");
  EXPECT_THAT(Call([&] { return PackedFile(path_, kSource).Find("a.weight").has_value(); }),
              ThrowsMessage<Error>(HasSubstr("'a.weight': packed weights: got")));
  replaced("int4 65 48 3", "int4 x5 48 3");
  ExpectRefused(kSource, "expected a format, three numbers and a hash");
  replaced("b.weight.codes", "b.weight.cades");
  ExpectRefused(kSource, "of 'b.weight' without its tensors");
  PutFile(path_, whole.substr(0, whole.size() / 2));
  ExpectRefused(kSource, "packed codes, ");
}

TEST(PackedFile, WithoutCommitThereIsNone) {
  const TemporaryFolder folder;
  {
    PackedFileWriter file(folder / "packed", kSource, {"a"});
    file.Add("a", PackedMatrix(RandomQuantized(Format::kInt8, 3, 16, 16, 1).view()));
  }
  EXPECT_THAT(folder.Names(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tare::packed_file_test
