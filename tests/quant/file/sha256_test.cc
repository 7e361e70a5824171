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
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

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

// ---- Records

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const RecordKind kKind{.schema = "tare.test/2",
                       .what = "a test",
                       .is_record = [](const Json& object) { return object.contains("x"); },
                       .is_older = [](const Json& object) { return object.value("schema", "") == "tare.test/1"; }};

Json TestObject(int x) { return {{"schema", "tare.test/2"}, {"x", x}}; }

TEST(CheckedLines, ALineEndsInTheHashOfWhatIsBeforeIt) {
  const std::string begin = R"({"schema":"tare.test/2","x":1)";
  EXPECT_EQ(CheckedLine(TestObject(1)), begin + R"(,"sha256":")" + Sha256Hex(std::as_bytes(std::span(begin))) + "\"}");
}

TEST(CheckedLines, AreReadWithoutTheirHashes) {
  const TemporaryFolder folder;
  EXPECT_THAT(ReadRecords(folder / "f", kKind).records, IsEmpty());
  const std::string one = CheckedLine(TestObject(1)), two = CheckedLine(TestObject(2));
  PutFile(folder / "f", one + "\n" + two + "\n" + "torn");
  const RecordLines lines = ReadRecords(folder / "f", kKind);
  EXPECT_THAT(lines.damaged, IsEmpty());
  ASSERT_EQ(lines.records.size(), 2u);
  EXPECT_EQ(lines.records[1].number, 2u);
  EXPECT_EQ(lines.records[1].line, two);
  EXPECT_EQ(lines.records[1].object, TestObject(2));
}

TEST(CheckedLines, EveryChangedByteIsSeen) {
  const TemporaryFolder folder;
  const std::string one = CheckedLine(TestObject(1)), two = CheckedLine(TestObject(2)) + "\n";
  for (size_t at = 0; at < one.size(); ++at) {
    for (const char byte : {'\0', '1', 'x', '"', '}'}) {
      if (one[at] == byte) continue;
      std::string damaged = one;
      damaged[at] = byte;
      PutFile(folder / "f", two + damaged + "\n" + two);
      const RecordLines lines = ReadRecords(folder / "f", kKind);
      EXPECT_THAT(lines.damaged, ElementsAre(2)) << damaged;
      EXPECT_EQ(lines.records.size(), 2u);
      EXPECT_EQ(DamageText(lines), (folder / "f").string() + ": line 2: does not match its hash");
    }
  }
  for (size_t at = 1; at < one.size(); ++at) {  // where neither half says whose it is, it is refused
    PutFile(folder / "f", one.substr(0, at) + "\n" + one.substr(at) + "\n");
    try {
      EXPECT_THAT(ReadRecords(folder / "f", kKind).records, IsEmpty()) << at;
    } catch (const Error&) {
    }
  }
  PutFile(folder / "f", one.substr(0, one.size() / 2) + "\n" + one.substr(one.size() / 2) + "\n");
  EXPECT_THAT(DamageText(ReadRecords(folder / "f", kKind)), HasSubstr("f: lines 1, 2: do not match their hashes"));
}

TEST(CheckedLines, OlderLinesAreTakenAndForeignOnesRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "f", "{\"schema\":\"tare.test/1\",\"y\":1}\n");
  EXPECT_EQ(ReadRecords(folder / "f", kKind).records.at(0).object["y"], 1);
  const Json other{{"schema", "other/2"}, {"x", 1}}, without{{"schema", "tare.test/2"}, {"y", 1}};
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& line : {std::string("a note"), std::string(), std::string("{}"), std::string("[3]"), deep,
                                  CheckedLine(other), CheckedLine(without)}) {
    PutFile(folder / "f", CheckedLine(TestObject(1)) + "\n" + line + "\n");
    EXPECT_THAT(Call([&] { ReadRecords(folder / "f", kKind); }),
                ThrowsMessage<Error>(HasSubstr("f: line 2: got something else, expected a test; try another folder")))
        << line.substr(0, 100);
  }
}

}  // namespace

}  // namespace tare::sha256_test
