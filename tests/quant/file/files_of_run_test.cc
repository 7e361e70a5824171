// SPDX-License-Identifier: Apache-2.0
// Whatever way leads to a file that a run reads, nothing of the run writes, appends or removes it.
#include "quant/file/files_of_run.h"

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/mapped_file.h"
#include "quant/file/temporary_name.h"
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

}  // namespace
}  // namespace tare::files_of_run_test
