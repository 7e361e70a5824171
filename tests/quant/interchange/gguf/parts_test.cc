// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::parts_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;

GgufBytes Part(uint16_t number, uint16_t count, uint32_t tensors, const std::string& tensor) {
  GgufBytes file;
  if (number == 0) file.AddText("general.name", "first");
  file.Add("split.no", 2, GgufBytes::Raw(number)).Add("split.count", 2, GgufBytes::Raw(count));
  file.AddNumber("split.tensors.count", tensors);
  file.AddFloats(tensor, {2}, std::vector<float>{1, 2});
  return file;
}

std::string NameOf(int number, int count) { return Formatted("m-{:05}-of-{:05}.gguf", number, count); }

TEST(GgufParts, AnyPartStandsForAll) {
  const TemporaryFolder folder;
  std::string lines;
  for (uint16_t i = 0; i < 3; ++i) {
    const std::string name = NameOf(i + 1, 3);
    PutFile(folder / name, Part(i, 3, 3, Formatted("t{}", i)).Bytes());
    lines += Sha256OfFile(folder / name) + "  " + name + "\n";
  }
  for (int given = 1; given <= 3; ++given) {
    const Parts parts(folder / NameOf(given, 3));
    EXPECT_EQ(parts.tensors().size(), 3u);
    EXPECT_EQ(parts.metadata().Text("general.name"), "first");
    EXPECT_EQ(parts.ContentHash(), Sha256Hex(std::as_bytes(std::span(lines))));
    EXPECT_NO_THROW(parts.Release(parts.tensors()[2].bytes));
    EXPECT_EQ(OpenFirst(folder / NameOf(given, 3)).content.metadata.Text("general.name"), "first");
  }
}

TEST(GgufParts, OfOneFileHaveItsHash) {
  const TemporaryFolder folder;
  PutFile(folder / "m.gguf", GgufBytes().AddFloats("t", {1}, std::vector<float>{1}).Bytes());
  EXPECT_EQ(Parts(folder / "m.gguf").ContentHash(), Sha256OfFile(folder / "m.gguf"));
}

TEST(GgufParts, ThatDoNotBelongTogetherAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& why) {
    EXPECT_THAT(Call([&] { Parts parts(folder / name); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  PutFile(folder / NameOf(1, 2), Part(0, 2, 2, "a").Bytes());
  refused(NameOf(1, 2), "m-00002-of-00002.gguf: no such file");
  PutFile(folder / NameOf(2, 2), Part(0, 2, 2, "b").Bytes());
  refused(NameOf(1, 2), "got part 1 of 2, expected part 2 of 2");
  PutFile(folder / NameOf(2, 2), Part(1, 2, 2, "a").Bytes());
  refused(NameOf(1, 2), "tensor 'a': is in another part too");
  PutFile(folder / NameOf(2, 2), Part(1, 2, 2, "b").Bytes());
  PutFile(folder / NameOf(1, 2), Part(0, 2, 5, "a").Bytes());
  refused(NameOf(1, 2), "split.tensors.count: got 2 tensors in 2 parts, expected 5");
  PutFile(folder / "other.gguf", Part(0, 2, 2, "a").Bytes());
  refused("other.gguf", "expected a name that ends in -00001-of-00002.gguf");
  PutFile(folder / NameOf(1, 1), Part(3, 2, 2, "a").Bytes());
  refused(NameOf(1, 1), "split.no: got 3, expected less than split.count 2");
}

}  // namespace
}  // namespace tare::parts_test
