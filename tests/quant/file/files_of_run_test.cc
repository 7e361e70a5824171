// SPDX-License-Identifier: Apache-2.0
// Whatever way leads to a file that a run reads, nothing of the run writes, appends or removes it.
#include "quant/file/files_of_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/mapped_file.h"
#include "quant/file/output_folder.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::files_of_run_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FilesOfRunTest : public testing::Test {
 protected:
  FilesOfRunTest() {
    fs::create_directory(folder_ / "d");
    for (const char* name : {"read", "d/named", "other"}) PutFile(folder_ / name, "kept");
    fs::create_symlink("read", folder_ / "link");
    fs::create_hard_link(folder_ / "read", folder_ / "hard");
    fs::create_directory_symlink("d", folder_ / "e");
  }
  void Refuses(const std::string& name, const std::string& message) {
    EXPECT_THAT(Call([&] { WriteFileAtomically(folder_ / name, "new"); }), ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_THAT(Call([&] { AppendLine(folder_ / name, "new"); }), ThrowsMessage<Error>(HasSubstr(message)));
    RemoveFile(folder_ / name);
    EXPECT_EQ(GetFile(folder_ / name), "kept") << name;
  }

  TemporaryFolder folder_;
};

TEST_F(FilesOfRunTest, AFileThatWasOpenedIsKeptByEachOfItsNames) {
  const FilesOfRun run;
  {
    const MappedFile file(folder_ / "read");
  }
  for (const char* name : {"read", "link", "hard", "d/../read"}) Refuses(name, "is both an input and an output");
  WriteFileAtomically(folder_ / "other", "new");
  EXPECT_EQ(GetFile(folder_ / "other"), "new");
}

TEST_F(FilesOfRunTest, AFolderThatWasNamedKeepsItsFiles) {
  const FilesOfRun run;
  NoteInput(folder_ / "e/");
  for (const char* name : {"d/named", "e/named"}) Refuses(name, "is a file of the input");
  NoteInput(folder_ / "none");
  WriteFileAtomically(folder_ / "d/new", "new");
}

TEST_F(FilesOfRunTest, WhatWillBeReplacedIsNotRead) {
  const FilesOfRun run;
  {
    const AtomicFile claim(folder_ / "link");
    EXPECT_THAT(Call([&] { const MappedFile file(folder_ / "hard"); }),
                ThrowsMessage<Error>(HasSubstr("link: is both an input and an output; try another name")));
  }
  EXPECT_NO_THROW(const MappedFile file(folder_ / "hard"));
}

// Finished cells and parts are read and written on.
TEST_F(FilesOfRunTest, WhatARunMadeOrTookUpIsItsOwn) {
  const FilesOfRun run;
  WriteFileAtomically(folder_ / "made", "one");
  {
    const MappedFile file(folder_ / "made");
  }
  WriteFileAtomically(folder_ / "made", "two");
  TakeForOwn(folder_ / "read");
  const AtomicFile claim(folder_ / "read");
  {
    const MappedFile file(folder_ / "read");
  }
  AppendLine(folder_ / "read", "new");
  {
    const MappedFile file(folder_ / "other");
  }
  EXPECT_THAT(Call([&] { TakeForOwn(folder_ / "other"); }), ThrowsMessage<Error>(HasSubstr("other: is both")));
}

// A killed run left it, and the user goes on with it.
TEST_F(FilesOfRunTest, ATemporaryThatIsReadStays) {
  const std::string name = TemporaryName("x", 0);
  fs::create_directory(folder_ / name);
  PutFile(folder_ / name / "codes.h5", "kept");
  PutFile(folder_ / name / "more", "gone");
  const FilesOfRun run;
  {
    const MappedFile file(folder_ / name / "codes.h5");
  }
  RemoveTemporary(*OpenFolder::Of(folder_.path()), name);
  EXPECT_EQ(GetFile(folder_ / name / "codes.h5"), "kept");
  EXPECT_FALSE(fs::exists(folder_ / name / "more"));
}

TEST_F(FilesOfRunTest, NothingIsNotedOutsideOfARun) {
  {
    const FilesOfRun run;
    const MappedFile file(folder_ / "read");
  }
  const MappedFile other(folder_ / "other");
  for (const char* name : {"read", "other"}) WriteFileAtomically(folder_ / name, "new");
  EXPECT_EQ(GetFile(folder_ / "hard"), "kept");
}

using ::testing::ElementsAre;

// An open file of this process, closed at the end, and its name.
class Open {
 public:
  explicit Open(int fd) : fd_(fd) {}
  Open(const Open&) = delete;
  ~Open() { close(fd_); }
  std::string path() const { return Formatted("/dev/fd/{}", fd_); }

 private:
  int fd_;
};

TEST(FileOf, APipeIsReadLikeAFileAsOftenAsNeeded) {
  const std::string text = std::string(300'000, 'a') + "\n" + std::string(5, 'b');  // more than a pipe holds
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Open pipe(ends[0]);
  std::thread writer([&] {
    for (size_t at = 0; at < text.size();)
      at += static_cast<size_t>(std::max<ssize_t>(0, write(ends[1], text.data() + at, text.size() - at)));
    close(ends[1]);
  });
  EXPECT_EQ(FileOf(pipe.path()), pipe.path());
  writer.join();
  EXPECT_EQ(FileOf(pipe.path()), pipe.path());  // a second option of the same name
  EXPECT_EQ(MappedFile(pipe.path()).text(), text);
  EXPECT_EQ(MappedFile(pipe.path()).text(), text);
}

TEST(FileOf, ANamedPipeIsReadLikeAFile) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& text : {std::string(300'000, 'a') + "\nb", std::string()}) {
    std::thread writer([&] { PutFile(pipe, text); });
    EXPECT_EQ(FileOf(pipe), pipe);
    writer.join();
    EXPECT_EQ(MappedFile(pipe).text(), text);
    EXPECT_EQ(MappedFile(folder / "." / "pipe").text(), text);
  }
  EXPECT_THAT(Call([&] { FileOf(pipe); }), ThrowsMessage<Error>(HasSubstr("got a pipe that nobody writes into")));
}

TEST(FileOf, AFileThatIsReadInPartGoesOn) {
  const TemporaryFolder folder;
  PutFile(folder / "a", "first\nsecond\n");
  const int fd = open((folder / "a").c_str(), O_RDONLY);
  const Open file(fd);
  EXPECT_EQ(MappedFile(FileOf(file.path())).text(), "first\nsecond\n");
  ASSERT_EQ(lseek(fd, 6, SEEK_SET), 6);
  EXPECT_EQ(MappedFile(FileOf(file.path())).text(), "second\n");
  EXPECT_EQ(MappedFile(FileOf(file.path())).text(), "second\n");
  EXPECT_EQ(GetFile(folder / "a"), "first\nsecond\n");
}

TEST(FileOf, OtherNamesStay) {
  EXPECT_EQ(FileOf("a b/-"), "a b/-");
  EXPECT_EQ(FileOf("/dev/fd/x"), "/dev/fd/x");
  EXPECT_EQ(FileOf("/dev/fd/987654"), "/dev/fd/987654");
  EXPECT_EQ(FileOf("/dev/full"), "/dev/full");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Open reads(ends[0]), writes(ends[1]);
  EXPECT_EQ(FileOf(writes.path()), writes.path());  // nothing can be read there: it would wait for ever
  EXPECT_THAT(Call([&] { MappedFile(writes.path()); }), ThrowsMessage<Error>(HasSubstr("got a pipe or device")));
}

TEST(SplitNames, ACommaWrittenTwiceBelongsToAName) {
  EXPECT_THAT(SplitNames("a.txt"), ElementsAre("a.txt"));
  EXPECT_THAT(SplitNames("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(SplitNames("a,,b,c"), ElementsAre("a,b", "c"));
  EXPECT_THAT(SplitNames("a,,,b"), ElementsAre("a,", "b"));
  EXPECT_THAT(SplitNames("a,"), ElementsAre("a", ""));
  EXPECT_THAT(SplitNames(""), ElementsAre(""));
}

}  // namespace

}  // namespace tare::files_of_run_test
