// SPDX-License-Identifier: Apache-2.0
#include "quant/file/sha256.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/checked_lines.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::sha256_test {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// FIPS 180-4's own examples.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Sha256Hex(Bytes("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(Bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(Bytes(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsAddUp) {
  Sha256 hash;
  hash.Add(Bytes("a"));
  hash.Add({});
  hash.Add(Bytes("bc"));
  EXPECT_EQ(hash.Hex(), Sha256Hex(Bytes("abc")));
}

TEST(Sha256, FilesAreReadInSteps) {
  const TemporaryFolder folder;
  std::string text((size_t{8} << 20) + 12345, 'x');  // more than one step
  text.back() = 'z';
  PutFile(folder / "a", text);
  PutFile(folder / "empty", "");
  EXPECT_EQ(Sha256OfFile(folder / "a"), Sha256Hex(Bytes(text)));
  EXPECT_EQ(Sha256OfFile(folder / "empty"), Sha256Hex({}));
  EXPECT_THROW(Sha256OfFile(folder / "none"), Error);
}

using testing::IsEmpty;
using testing::SizeIs;

// Sparse files of kRememberedSize bytes that changed two seconds before the first test; no clock can be set here.
class RememberedHashes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = std::make_unique<const TemporaryFolder>();
    for (const char* name : {"same", "changed"}) {
      PutFile(*files_ / name, "weights");
      std::filesystem::resize_file(*files_ / name, kRememberedSize);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2050));
  }
  static void TearDownTestSuite() { files_.reset(); }
  RememberedHashes() { RememberHashesIn(Entries()); }
  ~RememberedHashes() override { RememberHashesIn({}); }

  std::filesystem::path Entries() const { return folder_ / "hashes"; }
  std::vector<std::filesystem::path> EntryFiles() const {
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::exists(Entries())) return files;
    for (const auto& entry : std::filesystem::directory_iterator(Entries())) files.push_back(entry.path());
    return files;
  }
  std::string Hash() const { return HashOfFile(MappedFile(file_)); }
  std::string Truth() const { return Sha256OfFile(file_); }

  // What is remembered becomes another hash, so that one sees where it came from.
  void Forge(const std::string& hash) const {
    const auto entry = EntryFiles().at(0);
    Json object = ParseOrderedJson(ReadLines(entry).at(0), "entry");
    object.erase("sha256");
    object["sha256_of_file"] = hash;
    WriteFileAtomically(entry, CheckedLine(object) + "\n");
  }

  static std::unique_ptr<const TemporaryFolder> files_;
  const TemporaryFolder folder_;
  std::filesystem::path file_ = *files_ / "same";
};

std::unique_ptr<const TemporaryFolder> RememberedHashes::files_;

TEST_F(RememberedHashes, OfAFileThatHasNotChanged) {
  EXPECT_EQ(Hash(), Truth());
  ASSERT_THAT(EntryFiles(), SizeIs(1));
  Forge("remembered");
  EXPECT_EQ(Hash(), "remembered");
  int64_t read = 0;
  EXPECT_EQ(HashOfFile(MappedFile(file_), [&](std::span<const std::byte> part) { read += std::ssize(part); }), Truth());
  EXPECT_EQ(read, static_cast<int64_t>(kRememberedSize));  // of who looks at each byte as well
  EXPECT_EQ(Hash(), Truth());
}

TEST_F(RememberedHashes, AChangeInPlaceIsSeenThoughItsTimeIsSetBack) {
  file_ = *files_ / "changed";
  struct stat before;
  ASSERT_EQ(stat(file_.c_str(), &before), 0);
  const std::string old = Hash();
  std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary).write("W", 1);
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  EXPECT_EQ(Hash(), Truth());
  EXPECT_NE(Hash(), old);
}

TEST_F(RememberedHashes, AFileThatHasJustChangedIsNotRemembered) {
  file_ = folder_ / "new";
  std::filesystem::copy_file(*files_ / "same", file_);
  EXPECT_EQ(Hash(), Truth());
  EXPECT_THAT(EntryFiles(), IsEmpty());
}

TEST_F(RememberedHashes, WhatIsDamagedOrForeignIsComputedAgain) {
  (void)Hash();
  ASSERT_THAT(EntryFiles(), SizeIs(1));
  const std::filesystem::path entry = EntryFiles()[0];
  const std::string whole = ReadLines(entry).at(0);
  std::string damaged = whole;
  damaged[damaged.find("sha256_of_file") + 20] ^= 1;
  Json other = ParseOrderedJson(whole, "entry");
  other.erase("sha256");
  other["inode"] = 1;
  const std::string of_another = CheckedLine(other) + "\n";
  for (const std::string& text : {damaged + "\n", of_another, whole.substr(0, 40), whole + "\n" + whole + "\n",
                                  std::string("something\n"), std::string()}) {
    PutFile(entry, text);
    EXPECT_EQ(Hash(), Truth()) << text;
    EXPECT_THAT(ReadLines(entry), testing::ElementsAre(whole)) << text;
  }
}

TEST_F(RememberedHashes, NowhereToRememberThemIsNoError) {
  PutFile(folder_ / "a file", "");
  RememberHashesIn(folder_ / "a file");
  EXPECT_EQ(Hash(), Truth());
  RememberHashesIn({});
  EXPECT_EQ(Hash(), Truth());
  EXPECT_THAT(EntryFiles(), IsEmpty());
}

TEST_F(RememberedHashes, SmallFilesAreHashedEachTime) {
  const std::filesystem::path small = folder_ / "small";
  PutFile(small, "weights");
  EXPECT_EQ(HashOfFile(MappedFile(small)), Sha256OfFile(small));
  EXPECT_THAT(EntryFiles(), IsEmpty());
}

}  // namespace

}  // namespace tare::sha256_test
