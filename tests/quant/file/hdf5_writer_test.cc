// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::hdf5_writer_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Hdf5Writer, AppearsAtCommit) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "a.h5");
  writer.WriteDataset<float>("x", {1}, std::vector<float>{1});
  EXPECT_FALSE(std::filesystem::exists(folder / "a.h5"));
  writer.Commit();
  EXPECT_THAT(folder.Names(), ElementsAre("a.h5"));
}

TEST(Hdf5Writer, WithoutCommitNothingStays) {
  const TemporaryFolder folder;
  PutFile(folder / "a.h5", "old");
  {
    Hdf5Writer writer(folder / "a.h5");
    writer.WriteDataset<float>("x", {1}, std::vector<float>{1});
  }
  EXPECT_EQ(GetFile(folder / "a.h5"), "old");
  EXPECT_THAT(folder.Names(), ElementsAre("a.h5"));
}

TEST(Hdf5Writer, ValuesComeInAnyOrder) {
  const TemporaryFolder folder;
  const std::vector<int32_t> rows{0, 1, 10, 11, 20, 21, 30, 31};
  Hdf5Writer writer(folder / "a.h5");
  writer.CreateDataset("x", DType::kI32, {4, 2});
  writer.WriteAt("x", 6, 2, &rows[6]);
  writer.WriteAt("x", 0, 4, &rows[0]);
  writer.WriteAt("x", 4, 0, nullptr);
  writer.WriteAt("x", 4, 2, &rows[4]);
  writer.Commit();
  EXPECT_EQ(Hdf5Reader(folder / "a.h5").Read<int32_t>("x"), rows);
}

TEST(Hdf5Writer, SeveralThreadsWriteAtOnce) {
  const TemporaryFolder folder;
  constexpr int64_t kRows = 64, kColumns = 1000;
  Hdf5Writer writer(folder / "a.h5");
  writer.CreateDataset("x", DType::kI64, {kRows, kColumns});
  ParallelFor(kRows, [&](size_t row, int) {
    const std::vector<int64_t> values(kColumns, static_cast<int64_t>(row));
    writer.WriteAt("x", static_cast<int64_t>(row) * kColumns, kColumns, values.data());
  });
  writer.Commit();
  const Hdf5Reader reader(folder / "a.h5");
  const std::vector<int64_t> values = reader.Read<int64_t>("x");
  for (int64_t i = 0; i < kRows * kColumns; ++i) ASSERT_EQ(values[i], i / kColumns);
}

TEST(Hdf5Writer, RefusesValuesThatAreNotThereOrWereForgotten) {
  const TemporaryFolder folder;
  const std::vector<float> row(3);
  Hdf5Writer writer(folder / "a.h5");
  writer.CreateDataset("x", DType::kF32, {2, 3});
  EXPECT_THAT(Call([&] { writer.WriteAt("x", 5, 2, row.data()); }),
              ThrowsMessage<Error>(HasSubstr("'x': got 2 values at 5, expected inside its 6")));
  EXPECT_THROW(writer.WriteAt("x", -1, 1, row.data()), Error);
  EXPECT_THROW(writer.WriteAt("x", 0, -1, row.data()), Error);
  EXPECT_THROW(writer.WriteAt("x", 1, INT64_MAX, row.data()), Error);
  EXPECT_THAT(Call([&] { writer.WriteAt("y", 0, 3, row.data()); }),
              ThrowsMessage<Error>(HasSubstr("'y': not created yet")));
  writer.WriteAt("x", 0, 3, row.data());
  EXPECT_THAT(Call([&] { writer.Commit(); }), ThrowsMessage<Error>(HasSubstr("'x': got 3 of its 6 values")));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.h5"));
}

void PutEqual(const std::filesystem::path& path) {
  Hdf5Writer writer(path);
  const std::vector<float> values(5000, 0.25f);
  for (int i = 0; i < 12; ++i) writer.WriteDataset<float>(Formatted("group.{}/sub/x", i), {50, 100}, values);
  writer.SetAttribute("", "schema", "s");
  writer.SetAttribute("group.3", "text", std::string(70'000, 'y'));
  writer.SetAttribute("group.3", "text", "shorter");
  writer.Commit();
}

TEST(Hdf5Writer, EqualContentIsEqualBytes) {
  const TemporaryFolder folder;
  PutEqual(folder / "a.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // object times, were there any, count seconds
  PutEqual(folder / "another-name.h5");
  EXPECT_TRUE(GetFile(folder / "a.h5") == GetFile(folder / "another-name.h5"));
}

TEST(Hdf5Writer, DatasetsAreAlignedAndContiguous) {
  const TemporaryFolder folder;
  {
    Hdf5Writer writer(folder / "a.h5");
    for (int i = 1; i < 40; ++i) {
      writer.WriteDataset<uint8_t>(Formatted("x{}", i), {i * i}, std::vector<uint8_t>(i * i, static_cast<uint8_t>(i)));
      writer.SetAttribute(Formatted("x{}", i), "k", std::string(i, 'x'));
    }
    writer.Commit();
  }
  const Hdf5Reader reader(folder / "a.h5");
  for (const std::string& name : reader.datasets()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(reader.Bytes(name).data()) % 64, 0u) << name;
  }
}

TEST(Hdf5Writer, SealsWithHashAndCompletion) {
  const TemporaryFolder folder;
  const std::vector<int16_t> values{1, 2, 3};
  Hdf5Writer writer(folder / "a.h5");
  writer.WriteDataset<int16_t>("x", {3}, values);
  writer.Commit();
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_EQ(reader.StringAttribute("x", "sha256"), Sha256Hex(std::as_bytes(std::span(values))));
  EXPECT_EQ(reader.IntAttribute("", "complete"), 1);
}

TEST(Hdf5Writer, RefusesBadNamesTypesAndShapes) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "a.h5");
  for (const std::string name : {"", "/", "/a", "a/", "a//b", ".", "a/../b", "a/."}) {
    EXPECT_THAT(Call([&] { writer.CreateDataset(name, DType::kF32, {1}); }),
                ThrowsMessage<Error>(HasSubstr("got the dataset name")))
        << name;
  }
  EXPECT_THROW(writer.CreateDataset(std::string("a\0b", 3), DType::kF32, {1}), Error);
  EXPECT_THAT(Call([&] { writer.CreateDataset("x", DType::kF16, {1}); }),
              ThrowsMessage<Error>(HasSubstr("'x': got dtype F16")));
  EXPECT_THAT(Call([&] { writer.CreateDataset("x", DType::kF32, {-1}); }),
              ThrowsMessage<Error>(HasSubstr("'x': got shape [-1]")));
  EXPECT_THROW(writer.CreateDataset("x", DType::kF32, {INT64_MAX, 2}), Error);
  EXPECT_THROW(writer.CreateDataset("x", DType::kF32, std::vector<int64_t>(40, 1)), Error);  // HDF5 goes to 32
  writer.CreateDataset("y", DType::kF32, {0});
  EXPECT_THAT(Call([&] { writer.CreateDataset("y", DType::kF32, {1}); }),
              ThrowsMessage<Error>(HasSubstr("'y': created twice")));
  EXPECT_THROW(writer.CreateDataset("y/z", DType::kF32, {1}), Error);  // y is no group
  EXPECT_THAT(Call([&] { writer.WriteDataset<float>("z", {3}, std::vector<float>(4)); }),
              ThrowsMessage<Error>(HasSubstr("'z': got 4 values at 0, expected inside its 3")));
}

TEST(Hdf5Writer, RefusesBadAttributes) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "a.h5");
  EXPECT_THAT(Call([&] { writer.SetAttribute("", "k", std::string("a\0b", 3)); }),
              ThrowsMessage<Error>(HasSubstr("text with a NUL")));
  EXPECT_THAT(Call([&] { writer.SetAttribute("none", "k", "v"); }), ThrowsMessage<Error>(HasSubstr("no such object")));
  for (const std::string key : {"", "sha256", "complete"}) {
    EXPECT_THAT(Call([&] { writer.SetAttribute("", key, "v"); }), ThrowsMessage<Error>(HasSubstr("the name is taken")));
  }
}

TEST(Hdf5Writer, NamesTheReasonForABadTarget) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { Hdf5Writer(folder / "none/a.h5"); }), ThrowsMessage<Error>(HasSubstr("no folder")));
  EXPECT_THAT(Call([&] { Hdf5Writer(folder.path()); }),
              ThrowsMessage<Error>(HasSubstr("folder or device has that name")));
}

// Wherever the disk fills up: while rows are written, while the file is sealed, or as it is closed.
TEST(Hdf5Writer, AFullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::vector<float> values(10'000, 1.0f);
  const auto write = [&] {
    Hdf5Writer writer(folder / "a.h5");
    writer.WriteDataset<float>("x", {100, 100}, values);
    writer.SetAttribute("", "text", std::string(30'000, 'y'));
    writer.Commit();
  };
  write();
  const auto size = static_cast<rlim_t>(std::filesystem::file_size(folder / "a.h5"));
  std::filesystem::remove(folder / "a.h5");
  for (rlim_t limit = 0; limit < size; limit += 2000) {
    EXPECT_THAT(Call([&] {
                  const FileSizeLimit full(limit);
                  write();
                }),
                ThrowsMessage<Error>(HasSubstr("a.h5: writing failed: File too large; try freeing space")))
        << limit;
    EXPECT_THAT(folder.Names(), IsEmpty());
  }
  EXPECT_NO_THROW(write());
}

}  // namespace
}  // namespace tare::hdf5_writer_test
