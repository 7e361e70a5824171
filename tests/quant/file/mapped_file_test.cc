// SPDX-License-Identifier: Apache-2.0
#include "quant/file/mapped_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::mapped_file_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void Open(const std::filesystem::path& path) { const MappedFile file(path); }

TEST(MappedFile, HoldsTheWholeFile) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "some bytes");
  const MappedFile file(folder / "a");
  EXPECT_EQ(Text(file), "some bytes");
  EXPECT_EQ(file.path(), folder / "a");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "");
  EXPECT_TRUE(MappedFile(folder / "a").bytes().empty());
}

TEST(MappedFile, MovesAndSwaps) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "aaa");
  PutFile(folder / "b", "bb");
  MappedFile a(folder / "a"), b(folder / "b");
  const std::byte* address = a.bytes().data();
  MappedFile moved(std::move(a));
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_TRUE(a.bytes().empty());  // NOLINT: what is left after a move is promised
  b = std::move(moved);
  EXPECT_EQ(Text(b), "aaa");
}

TEST(MappedFile, SaysWhatIsWrongWithAPath) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "aaa");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Call([&] { Open(folder / "none"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("/none"), HasSubstr("no such file"))));
  EXPECT_THAT(Call([&] { Open(folder / "a/b"); }), ThrowsMessage<Error>(HasSubstr("no such file")));
  EXPECT_THAT(Call([&] { Open(folder.path()); }),
              ThrowsMessage<Error>(AllOf(HasSubstr(folder.path().string()), HasSubstr("got a folder"))));
  EXPECT_THAT(Call([&] { Open(folder / "pipe"); }), ThrowsMessage<Error>(HasSubstr("got a pipe or device")));
  EXPECT_THAT(Call([&] { Open("/dev/zero"); }), ThrowsMessage<Error>(HasSubstr("got a pipe or device")));
  EXPECT_THAT(Call([&] { Open(folder / std::string(300, 'x')); }),
              ThrowsMessage<Error>(HasSubstr("cannot open: File name too long")));
}

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  const TemporaryFolder folder;
  std::string text(5 * 4096 + 17, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  PutFile(folder / "a", text);
  const MappedFile file(folder / "a");
  EXPECT_EQ(Text(file), text);
  EXPECT_TRUE(file.Release(file.bytes().subspan(100, 3 * 4096)));
  EXPECT_TRUE(file.Release(file.bytes()));
  EXPECT_TRUE(file.Release(file.bytes().subspan(text.size())));
  EXPECT_EQ(Text(file), text);
}

TEST(MappedFile, ReleasesOnlyInside) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "aaa");
  const MappedFile file(folder / "a");
  const std::byte* const begin = file.bytes().data();
  EXPECT_TRUE(file.Release({begin, 3}));
  EXPECT_FALSE(file.Release({begin + 1, 3}));
  EXPECT_FALSE(file.Release({begin - 1, 1}));
  EXPECT_FALSE(file.Release({}));
}

// Until the end of a test.
struct Copies {
  Copies() { OpenFilesAs(FileMemory::kCopied); }
  ~Copies() { OpenFilesAs(FileMemory::kMapped); }
};

TEST(MappedFile, ACopyStaysAsItWas) {
  const TemporaryFolder folder;
  PutFile(folder / "a", std::string(9000, 'x'));
  const Copies copies;
  MappedFile file(folder / "a");
  std::filesystem::resize_file(folder / "a", 3);
  file.Release(file.bytes());
  EXPECT_EQ(Text(file), std::string(9000, 'x'));
  const MappedFile moved(std::move(file));
  moved.Release(moved.bytes());
  EXPECT_EQ(Text(moved), std::string(9000, 'x'));
}

TEST(MappedFile, WhatIsWrongWithAPathIsSaidOfCopiesToo) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "");
  const Copies copies;
  EXPECT_TRUE(MappedFile(folder / "a").bytes().empty());
  EXPECT_THAT(Call([&] { Open(folder.path()); }), ThrowsMessage<Error>(HasSubstr("got a folder")));
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// What this process has mapped.
std::string Maps() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

TEST(DiskMemory, BuffersAreInFilesWithoutNames) {
  const TemporaryFolder folder;
  DiskMemory disk(folder.path());
  {
    AlignedBuffer<int> a(disk), other(3);
    for (const size_t size : {1000uz, 0uz, 100'000uz}) {
      a.Reset(size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
      std::iota(a.data(), a.data() + size, 7);
    }
    std::swap(a, other);  // the disk goes with what is on it
    a.Reset(5);
    const AlignedBuffer<int> moved = std::move(other);
    EXPECT_EQ(moved[99'999], 100'006);
    EXPECT_THAT(Maps(), HasSubstr(folder.path().string()));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  EXPECT_THAT(Maps(), Not(HasSubstr(folder.path().string())));
}

TEST(DiskMemory, FoldersWithoutRoomAreNamed) {
  const TemporaryFolder folder;
  DiskMemory disk(folder.path()), nowhere(folder / "none");
  AlignedBuffer<char> large(disk), any(nowhere);
  EXPECT_THAT(Call([&] { large.Reset(1uz << 60); }),
              ThrowsMessage<Error>(AllOf(HasSubstr(folder.path().string() + ": cannot hold 1152921504606846976 bytes"),
                                         HasSubstr("try a folder with more space"))));
  EXPECT_THAT(Call([&] { any.Reset(1); }),
              ThrowsMessage<Error>(HasSubstr("none: cannot hold 1 bytes in a temporary file: No such file")));
}

}  // namespace

}  // namespace tare::mapped_file_test
