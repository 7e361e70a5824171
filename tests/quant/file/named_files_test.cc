// SPDX-License-Identifier: Apache-2.0
#include "quant/file/named_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "quant/base/message.h"
#include "quant/file/mapped_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::named_files_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
}  // namespace tare::named_files_test
