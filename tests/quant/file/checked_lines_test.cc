// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checked_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::checked_lines_test {
namespace {

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
}  // namespace tare::checked_lines_test
