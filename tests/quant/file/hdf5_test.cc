// SPDX-License-Identifier: Apache-2.0
// Written data are read back, and damaged ones are refused.
#include "quant/file/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::hdf5_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename T>
std::vector<T> Extremes() {
  return {std::numeric_limits<T>::lowest(), T{0}, T{1}, std::numeric_limits<T>::max()};
}

template <typename T>
class Hdf5Numbers : public testing::Test {};
using Numbers = testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(Hdf5Numbers, Numbers);

TYPED_TEST(Hdf5Numbers, AreReadBack) {
  const TemporaryFolder folder;
  const std::vector<TypeParam> values = Extremes<TypeParam>();
  Hdf5Writer writer(folder / "a.h5");
  writer.WriteDataset<TypeParam>("group/x", {2, 2}, values);
  writer.Commit();
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_EQ(reader.Type("group/x"), DTypeOf<TypeParam>());
  EXPECT_THAT(reader.Shape("group/x"), ElementsAre(2, 2));
  EXPECT_EQ(reader.Read<TypeParam>("group/x"), values);
  const std::span<const std::byte> bytes = reader.Bytes("group/x");
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(values))));
  EXPECT_NO_THROW(reader.Verify());
}

TEST(Hdf5, ScalarsAndEmptyDatasets) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "a.h5");
  const double pi = 3.25;
  writer.WriteDataset("scalar", DType::kF64, {}, &pi);
  writer.WriteDataset("no_rows", DType::kF32, {0, 5}, nullptr);
  writer.WriteDataset("no_columns", DType::kI8, {5, 0}, nullptr);
  writer.Commit();
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(reader.Read<double>("scalar"), ElementsAre(3.25));
  EXPECT_TRUE(reader.Shape("scalar").empty());
  EXPECT_THAT(reader.Shape("no_rows"), ElementsAre(0, 5));
  EXPECT_TRUE(reader.Read<float>("no_rows").empty());
  EXPECT_TRUE(reader.Bytes("no_columns").empty());
  EXPECT_NO_THROW(reader.Verify());
}

TEST(Hdf5, AttributesAreReadBack) {
  const TemporaryFolder folder;
  const std::string text(100'000, 'x');
  Hdf5Writer writer(folder / "a.h5");
  writer.WriteDataset<float>("group/x", {1}, std::vector<float>{1});
  writer.SetAttribute("", "schema", "tare.stats/1");
  writer.SetAttribute("", "empty", "");
  writer.SetAttribute("group", "long", text);
  writer.SetAttribute("group/x", "utf-8", "\xce\xbb = 0.8 ");
  writer.SetAttribute("group/x", "count", INT64_MIN);
  writer.SetAttribute("group/x", "changed", int64_t{1});
  writer.SetAttribute("group/x", "changed", "text");
  for (int i = 0; i < 20; ++i) writer.SetAttribute("", Formatted("many{}", i), int64_t{i});
  writer.Commit();
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_EQ(reader.StringAttribute("", "schema"), "tare.stats/1");
  EXPECT_EQ(reader.StringAttribute("", "empty"), "");
  EXPECT_EQ(reader.StringAttribute("group", "long"), text);
  EXPECT_EQ(reader.StringAttribute("group/x", "utf-8"), "\xce\xbb = 0.8 ");
  EXPECT_EQ(reader.IntAttribute("group/x", "count"), INT64_MIN);
  EXPECT_EQ(reader.StringAttribute("group/x", "changed"), "text");
  EXPECT_EQ(reader.IntAttribute("", "many19"), 19);
  EXPECT_TRUE(reader.HasAttribute("", "schema"));
  EXPECT_FALSE(reader.HasAttribute("", "none"));
  EXPECT_FALSE(reader.HasAttribute("none", "schema"));
  EXPECT_THAT(Call([&] { reader.StringAttribute("group/x", "count"); }),
              ThrowsMessage<Error>(HasSubstr("attribute 'count': expected a string")));
  EXPECT_THAT(Call([&] { reader.IntAttribute("group/x", "changed"); }),
              ThrowsMessage<Error>(HasSubstr("expected an integer")));
  EXPECT_THAT(Call([&] { reader.IntAttribute("", "none"); }),
              ThrowsMessage<Error>(HasSubstr("attribute 'none': not there")));
}

// A file with what files have, small enough to damage every byte of it in turn.
std::string PutSample(const std::filesystem::path& path) {
  Hdf5Writer writer(path);
  const std::vector<float> scales{0.5f, 1.5f, -2.0f};
  const std::vector<uint8_t> codes{1, 2, 3, 4, 5, 6, 7, 8, 9};
  writer.WriteDataset<float>("layer.0/scales", {3}, scales);
  writer.WriteDataset<uint8_t>("layer.0/codes", {3, 3}, codes);
  writer.SetAttribute("", "schema", "sample/1");
  writer.SetAttribute("layer.0/codes", "bits", int64_t{6});
  writer.Commit();
  return GetFile(path);
}

// Everything a reader would use, as text.
std::string Digest(const Hdf5Reader& reader) {
  std::string text =
      reader.StringAttribute("", "schema") + Formatted(" {}", reader.IntAttribute("layer.0/codes", "bits"));
  for (const std::string& name : reader.datasets())
    text += name + ShapeText(reader.Shape(name)) + std::string(Name(reader.Type(name)));
  for (const float scale : reader.Read<float>("layer.0/scales")) text += Formatted(" {}", scale);
  for (const int64_t code : reader.Read<int64_t>("layer.0/codes")) text += Formatted(" {}", code);
  return text;
}

// Nothing where the file is refused.
std::string DigestIfSound(const std::filesystem::path& path) {
  try {
    const Hdf5Reader reader(path);
    reader.Verify();
    return Digest(reader);
  } catch (const Error&) {
    return "";
  }
}

// Bytes that no dataset, header or checksum covers (gaps of the alignment) may change; nothing that is read may.
TEST(Hdf5Damage, AnyByteIsRefusedOrHarmless) {
  const TemporaryFolder folder;
  const std::string whole = PutSample(folder / "a.h5");
  const std::string expected = DigestIfSound(folder / "a.h5");
  ASSERT_NE(expected, "");
  std::mt19937 random(3);
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= static_cast<char>(1 + random() % 255);
    PutFile(folder / "b.h5", damaged);
    const std::string got = DigestIfSound(folder / "b.h5");
    EXPECT_TRUE(got.empty() || got == expected) << "byte " << at << " of " << whole.size() << ": " << got;
    refused += got.empty();
  }
  EXPECT_GT(refused, 21u + 2 * 64);  // the data and their hashes, at the least
}

TEST(Hdf5Damage, AnyCutIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = PutSample(folder / "a.h5");
  for (size_t size = 0; size < whole.size(); size += 13) {
    PutFile(folder / "b.h5", std::string_view(whole).substr(0, size));
    EXPECT_EQ(DigestIfSound(folder / "b.h5"), "") << size;
  }
  PutFile(folder / "b.h5", std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "b.h5"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cut short"), HasSubstr("truncated file"))));
}

TEST(Hdf5Damage, NamesTheDatasetThatIsDamaged) {
  const TemporaryFolder folder;
  std::string bytes = PutSample(folder / "a.h5");
  const size_t codes = bytes.find("\1\2\3\4\5\6\7\10\11");
  ASSERT_NE(codes, std::string::npos);
  bytes[codes + 4] = 0;
  PutFile(folder / "a.h5", bytes);
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(Call([&] { reader.Verify(); }),
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("a.h5: dataset 'layer.0/codes': damaged: got SHA-256 "), HasSubstr("expected "))));
  EXPECT_THROW((void)reader.Bytes("layer.0/codes"), Error);  // refused once, refused again
  EXPECT_THROW((void)reader.Copy("layer.0/codes"), Error);
}

TEST(Hdf5Damage, RandomBlocksNeverCrash) {
  const TemporaryFolder folder;
  const std::string whole = PutSample(folder / "a.h5");
  const std::string expected = DigestIfSound(folder / "a.h5");
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    const size_t begin = random() % damaged.size(), size = std::min<size_t>(random() % 600, damaged.size() - begin);
    for (size_t at = begin; at < begin + size; ++at) damaged[at] = i % 2 == 0 ? '\0' : static_cast<char>(random());
    PutFile(folder / "b.h5", damaged);
    const std::string got = DigestIfSound(folder / "b.h5");
    EXPECT_TRUE(got.empty() || got == expected);
  }
}

}  // namespace
}  // namespace tare::hdf5_test
