// SPDX-License-Identifier: Apache-2.0
#include "quant/file/atomic_file.h"

#include <unistd.h>

#include <sys/wait.h>

#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::atomic_file_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(AtomicFile, AppearsAtCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  EXPECT_TRUE(std::filesystem::equivalent(file.path().parent_path(), folder.path()));
  EXPECT_EQ(file.final_path(), folder / "a");
  file.Write("one ");
  file.Write("two");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_EQ(GetFile(file.path()), "one two");
  file.Commit();
  EXPECT_EQ(GetFile(folder / "a"), "one two");
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.Write("new");
    const AtomicFile moved(std::move(file));
    EXPECT_EQ(folder.Names().size(), 2u);
  }
  EXPECT_EQ(GetFile(folder / "a"), "old");
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
}

TEST(AtomicFile, TwoAtATimeAndTheLastStays) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  first.Write("first");
  second.Write("second");
  second.Commit();
  first.Commit();
  EXPECT_EQ(GetFile(folder / "a"), "first");
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
}

TEST(AtomicFile, IsFoundAgainInAnotherFolder) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  AtomicFile file("a");
  file.Write("text");
  std::filesystem::current_path(before);
  file.Commit();
  EXPECT_EQ(GetFile(folder / "a"), "text");
}

TEST(AtomicFile, WritesThroughALink) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  PutFile(folder / "data/there", "old");
  std::filesystem::create_symlink("data/there", folder / "link");
  std::filesystem::create_symlink(folder / "data/not-yet", folder / "dangling");
  std::filesystem::create_symlink("circle", folder / "circle");
  WriteFileAtomically(folder / "link", "new");
  WriteFileAtomically(folder / "dangling", "made");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(GetFile(folder / "data/there"), "new");
  EXPECT_EQ(GetFile(folder / "data/not-yet"), "made");
  EXPECT_THAT(Call([&] { WriteFileAtomically(folder / "circle", ""); }),
              ThrowsMessage<Error>(HasSubstr("links form a circle")));
}

std::string notices;

// Ours by its name, which nobody else's file has; the others stay, and what earlier versions left is named.
TEST(AtomicFile, RemovesWhatAKillLeft) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    for (const char* name : {"a", "b"}) (void)new AtomicFile(folder / name);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const std::vector<std::string> left = folder.Names();
  ASSERT_EQ(left.size(), 2u);
  const char* const other_digit = left[0][left[0].size() - 5] == '0' ? "1.tmp" : "0.tmp";
  const std::vector<std::string> others{"a.99999999-0.tmp", "a.9.tmp", "a.x-0.tmp", "mine.tmp",
                                        "a." + left[0].substr(2, left[0].size() - 7) + other_digit};
  for (const std::string& name : others) PutFile(folder / name, "mine");
  OnNotice([](const std::string& text) { notices += text; });
  WriteFileAtomically(folder / "a", "text");
  OnNotice(nullptr);
  std::vector<std::string> expected = others;
  expected.insert(expected.end(), {"a", left[0].starts_with("b") ? left[0] : left[1]});
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAreArray(expected));
  EXPECT_THAT(notices,
              HasSubstr("/a.99999999-0.tmp: a killed run may have left it; try removing it if nobody needs it"));
}

// With temporaries that a file system takes: two names that begin alike are two files, and one's is cleaned up.
TEST(AtomicFile, NamesAreAsLongAsTheFileSystemTakesThem) {
  const TemporaryFolder folder;
  const std::string one(255, 'a'), other = std::string(254, 'a') + "b";
  const pid_t child = fork();
  if (child == 0) {
    (void)new AtomicFile(folder / one);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(folder.Names().size(), 1u);
  WriteFileAtomically(folder / other, "other");
  EXPECT_EQ(folder.Names().size(), 2u);  // what is left is another file's
  WriteFileAtomically(folder / one, "one");
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre(one, other));
  EXPECT_EQ(GetFile(folder / one), "one");
  EXPECT_EQ(GetFile(folder / other), "other");
  EXPECT_THAT(Call([&] { AtomicFile(folder / (one + "a")); }),
              ThrowsMessage<Error>(HasSubstr("cannot write: File name too long; try a shorter one")));
}

// The folder is moved away, and a link to somebody else's takes its place: nothing goes there.
TEST(AtomicFile, AFolderIsOpenedOnce) {
  const TemporaryFolder folder;
  for (const char* name : {"out", "mine"}) std::filesystem::create_directory(folder / name);
  for (const char* name : {"a", "log"}) PutFile(folder / "mine" / name, "mine");
  {
    const AtomicFile claim(folder / "out/a");
    AtomicFile begun(folder / "out/b");
    std::filesystem::rename(folder / "out", folder / "moved");
    std::filesystem::create_directory_symlink(folder / "mine", folder / "out");
    WriteFileAtomically(folder / "out/a", "ours");
    AppendLine(folder / "out/log", "ours");
    begun.Write("ours");
    begun.Commit();
    RemoveFile(folder / "out/b");
    EXPECT_FALSE(std::filesystem::exists(folder / "moved/b"));
  }
  EXPECT_EQ(GetFile(folder / "moved/a"), "ours");
  EXPECT_EQ(GetFile(folder / "moved/log"), "ours\n");
  for (const char* name : {"a", "log"}) EXPECT_EQ(GetFile(folder / "mine" / name), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "mine"), {}), 2);
  // Once nobody holds it, a path leads where it leads.
  WriteFileAtomically(folder / "out/a", "new");
  EXPECT_EQ(GetFile(folder / "mine/a"), "new");
}

// A link that takes the place of a file which is being written is replaced, not followed.
TEST(AtomicFile, ALinkThatCameMeanwhileIsNotFollowed) {
  const TemporaryFolder folder;
  PutFile(folder / "mine", "mine");
  const AtomicFile claim(folder / "a");
  std::filesystem::create_symlink("mine", folder / "a");
  WriteFileAtomically(folder / "a", "ours");
  EXPECT_EQ(GetFile(folder / "mine"), "mine");
  EXPECT_EQ(GetFile(folder / "a"), "ours");
}

TEST(AtomicFile, OneProcessWritesAFileAtATime) {
  const TemporaryFolder folder;
  std::optional<AtomicFile> ours(folder / "a");
  const auto other = [&] {  // exit code: 0 written, 1 refused, 2 without our number
    const pid_t child = fork();
    if (child == 0) {
      try {
        WriteFileAtomically(folder / "a", "theirs");
        _exit(0);
      } catch (const Error& error) {
        _exit(std::string(error.what()).contains(Formatted("process {} is writing it", getppid())) ? 1 : 2);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(other(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  ours.reset();
  EXPECT_EQ(other(), 0);
  EXPECT_EQ(GetFile(folder / "a"), "theirs");
}

// Each keeps its claim until all have tried: one, never two and never none.
TEST(AtomicFile, OneOfManyThatBeginAtOnceWritesIt) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 6, kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    int begin[2], tried[2], end[2];
    ASSERT_TRUE(pipe(begin) == 0 && pipe(tried) == 0 && pipe(end) == 0);
    for (int p = 0; p < kProcesses; ++p) {
      if (fork() != 0) continue;
      close(begin[1]), close(end[1]);
      char byte = 0;
      (void)!read(begin[0], &byte, 1);  // until the parent closes it
      std::optional<AtomicFile> file;
      try {
        file.emplace(folder / "a");
        AtomicFile again(folder / "a");  // as a command claims it first, and writes it in the end
        byte = 1;
      } catch (const Error&) {
      }
      (void)!write(tried[1], &byte, 1);
      (void)!read(end[0], &byte, 1);
      file.reset();
      _exit(0);
    }
    close(begin[0]), close(begin[1]);
    int writers = 0;
    for (int p = 0; p < kProcesses; ++p) {
      char byte = 0;
      ASSERT_EQ(read(tried[0], &byte, 1), 1);
      writers += byte;
    }
    EXPECT_EQ(writers, 1) << round;
    for (const int fd : {tried[0], tried[1], end[0], end[1]}) close(fd);
    while (wait(nullptr) > 0) {
    }
    EXPECT_THAT(folder.Names(), IsEmpty());
  }
}

TEST(AtomicFile, NamesTheReasonForABadTarget) {
  const TemporaryFolder folder;
  PutFile(folder / "file", "x");
  const auto open = [](const std::filesystem::path& path) { return [path] { const AtomicFile file(path); }; };
  EXPECT_THAT(open(folder / "none/a"),
              ThrowsMessage<Error>(AllOf(HasSubstr("no folder"), HasSubstr("none"), HasSubstr("mkdir"))));
  EXPECT_THAT(open(folder / "file/a"), ThrowsMessage<Error>(HasSubstr("is not a folder")));
  EXPECT_THAT(open(folder.path()), ThrowsMessage<Error>(HasSubstr("a folder or device has that name")));
  EXPECT_THAT(open(folder / ""), ThrowsMessage<Error>(HasSubstr("got a folder")));
  EXPECT_THAT(open("/dev/null"), ThrowsMessage<Error>(HasSubstr("a folder or device has that name")));
  EXPECT_THAT(open("/proc/a"),
              ThrowsMessage<Error>(AllOf(HasSubstr("/proc/a: cannot write: "), HasSubstr("permissions"))));
  EXPECT_THAT(open(folder / std::string(300, 'x')), ThrowsMessage<Error>(HasSubstr("File name too long")));
}

TEST(AtomicFile, AFullDiskLeavesWhatWasThere) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "old");
  EXPECT_THAT(Call([&] {
                const FileSizeLimit limit(1000);
                WriteFileAtomically(folder / "a", std::string(5000, 'x'));
              }),
              ThrowsMessage<Error>(AllOf(HasSubstr((folder / "a").string() + ": writing failed: File too large"),
                                         HasSubstr("freeing space"))));
  EXPECT_EQ(GetFile(folder / "a"), "old");
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
}

TEST(AtomicFile, WritesInOneGo) {
  const TemporaryFolder folder;
  WriteFileAtomically(folder / "a", "1");
  WriteFileAtomically(folder / "a", "22");
  EXPECT_EQ(GetFile(folder / "a"), "22");
}

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
}  // namespace tare::atomic_file_test
