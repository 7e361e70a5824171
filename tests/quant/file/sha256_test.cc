// SPDX-License-Identifier: Apache-2.0
#include "quant/file/sha256.h"

#include <gtest/gtest.h>

#include "quant/base/message.h"
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

}  // namespace
}  // namespace tare::sha256_test
