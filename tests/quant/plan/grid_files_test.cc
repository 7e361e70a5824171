// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quant/base/message.h"
#include "quant/plan/plan.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::grid_files_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GridFiles, AFileStandsForItsValues) {
  const TemporaryFolder folder;
  PutFile(folder / "levels, 1+2=3.txt", "-1\n0.25\n1\n");
  const std::string path = (folder / "levels, 1+2=3.txt").string();
  const std::string made = WithGridFiles(Formatted("weights=grid({})/group16+mse,q=grid({})/token", path, path));
  EXPECT_EQ(made, "weights=grid(-1 0.25 1)/group16+mse,q=grid(-1 0.25 1)/token");
  EXPECT_EQ(Plan::Parse(made).canonical(), made);
  PutFile(folder / "levels, 1+2=3.txt", "-1 0.5 1");  // another content, another plan
  EXPECT_NE(Plan::Parse(WithGridFiles(Formatted("q=grid({})/token", path))).hash(),
            Plan::Parse("q=grid(-1 0.25 1)/token").hash());
}

TEST(GridFiles, OtherTextIsUnchanged) {
  for (const char* text : {"", "int8", "q=mxfp4,k=int8/token", "q=grid(-1 0 1)/token", "q=grid( nan 1)/token",
                           "q=grid(0 1/token", "q=grid()/token"})
    EXPECT_EQ(WithGridFiles(text), text);
}

TEST(GridFiles, InvalidGridsAreRefusedWithTheirFile) {
  const TemporaryFolder folder;
  const std::string path = (folder / "f").string();
  const auto refused = [&](const std::string& content, const std::string& says) {
    PutFile(folder / "f", content);
    EXPECT_THAT(Call([&] { WithGridFiles(Formatted("q=grid({})/token", path)); }),
                ThrowsMessage<Error>(HasSubstr(path + says)));
  };
  refused("1 0", ", value 2: got 0 after 1, expected rising values, each once; try sorting them");
  refused("", ": got 0 values, expected 2 to 256");
  refused(std::string(70000, ' '), ": got 70000 bytes, expected the 2 to 256 numbers of a grid");
  EXPECT_THAT(Call([&] { WithGridFiles("q=grid(no/such.txt)/token"); }),
              ThrowsMessage<Error>(HasSubstr("no/such.txt: no such file")));
}

}  // namespace
}  // namespace tare::grid_files_test
