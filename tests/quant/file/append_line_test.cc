// SPDX-License-Identifier: Apache-2.0
// AppendLine and ReadLines of atomic_file.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::append_line_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(AppendLine, AddsWholeLines) {
  const TemporaryFolder folder;
  EXPECT_THAT(ReadLines(folder / "log"), IsEmpty());
  AppendLine(folder / "log", "{\"a\": 1}");
  AppendLine(folder / "log", "");
  AppendLine(folder / "log", "last");
  EXPECT_EQ(GetFile(folder / "log"), "{\"a\": 1}\n\nlast\n");
  EXPECT_THAT(ReadLines(folder / "log"), ElementsAre("{\"a\": 1}", "", "last"));
}

TEST(AppendLine, RemovesALineThatACrashCutShort) {
  const TemporaryFolder folder;
  const std::string torn(10'000, 'x');  // longer than one step of the search for the newline
  PutFile(folder / "log", "whole\n" + torn);
  EXPECT_THAT(ReadLines(folder / "log"), ElementsAre("whole"));
  AppendLine(folder / "log", "next");
  EXPECT_EQ(GetFile(folder / "log"), "whole\nnext\n");
  PutFile(folder / "log", torn);
  EXPECT_THAT(ReadLines(folder / "log"), IsEmpty());
  AppendLine(folder / "log", "only");
  EXPECT_EQ(GetFile(folder / "log"), "only\n");
}

TEST(AppendLine, AFullDiskLeavesWholeLines) {
  const TemporaryFolder folder;
  AppendLine(folder / "log", "first");
  EXPECT_THAT(Call([&] {
                const FileSizeLimit limit(100);
                AppendLine(folder / "log", std::string(500, 'x'));
              }),
              ThrowsMessage<Error>(AllOf(HasSubstr("/log: writing failed: "), HasSubstr("freeing space"))));
  EXPECT_EQ(GetFile(folder / "log"), "first\n");
  EXPECT_THAT(Call([] { AppendLine("/dev/full", "x"); }),
              ThrowsMessage<Error>(HasSubstr("/dev/full: writing failed: No space left on device")));
}

TEST(AppendLine, NamesTheReasonForABadTarget) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { AppendLine(folder / "none/log", "x"); }), ThrowsMessage<Error>(HasSubstr("no folder")));
  EXPECT_THAT(Call([&] { AppendLine(folder.path(), "x"); }),
              ThrowsMessage<Error>(HasSubstr("cannot write: Is a directory")));
  EXPECT_THAT(Call([&] { ReadLines(folder.path()); }), ThrowsMessage<Error>(HasSubstr("got a folder")));
}

TEST(AppendLine, LinesOfSeveralWritersStayWhole) {
  const TemporaryFolder folder;
  constexpr size_t kWriters = 4, kLines = 20;
  {
    std::vector<std::jthread> writers;
    for (size_t w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        for (size_t i = 0; i < kLines; ++i) AppendLine(folder / "log", std::string(1000, static_cast<char>('a' + w)));
      });
    }
  }
  const std::vector<std::string> lines = ReadLines(folder / "log");
  EXPECT_EQ(lines.size(), kWriters * kLines);
  for (const std::string& line : lines) EXPECT_EQ(line, std::string(1000, line.empty() ? '?' : line[0]));
}

}  // namespace
}  // namespace tare::append_line_test
