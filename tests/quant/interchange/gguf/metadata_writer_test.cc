// SPDX-License-Identifier: Apache-2.0
// What may not be written; that values are read back is in container_writer_test.cc.
#include "quant/interchange/gguf/metadata_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::metadata_writer_test {
namespace {

TEST(GgufMetadataWriter, KeysAreWrittenOnce) {
  gguf::MetadataWriter out("m");
  out.Number("a", 1);
  EXPECT_THAT(Call([&] { out.Flag("a", true); }),
              testing::ThrowsMessage<Error>("m: key 'a': got it twice, expected once"));
  EXPECT_EQ(out.count(), 1u);
}

TEST(GgufMetadataWriter, NumbersTakeFourBytes) {
  gguf::MetadataWriter out("m");
  EXPECT_THAT(Call([&] { out.Number("b", -1); }),
              testing::ThrowsMessage<Error>("m: key 'b': got -1, expected 0 to 2^32 - 1"));
  EXPECT_THROW(out.Number("b", int64_t{1} << 32), Error);
  out.Number("b", (int64_t{1} << 32) - 1);
  // The key, its type, the number.
  EXPECT_EQ(out.bytes(), std::string("\1\0\0\0\0\0\0\0b\4\0\0\0\xff\xff\xff\xff", 17));
}

TEST(GgufMetadataWriter, FlagsTakeAByteEach) {
  gguf::MetadataWriter out("m");
  out.Flags("b", {true, false});
  // The key, an array, of flags, of two.
  EXPECT_EQ(out.bytes(), std::string("\1\0\0\0\0\0\0\0b\x09\0\0\0\7\0\0\0\2\0\0\0\0\0\0\0\1\0", 27));
}

}  // namespace
}  // namespace tare::metadata_writer_test
