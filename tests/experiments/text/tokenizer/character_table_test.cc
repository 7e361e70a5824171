// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/character_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"
#include "tests/support/call.h"

namespace tare::character_table_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(CharacterTable, DamagedTablesAreRefused) {
  EXPECT_THAT(Call([] { CharacterTable("ab!c", "t.json"); }),
              ThrowsMessage<Error>(HasSubstr("t.json: precompiled_charsmap: got text that is not base64")));
  EXPECT_THAT(Call([] { CharacterTable("AAAA", "t.json"); }),
              ThrowsMessage<Error>(HasSubstr("table of characters is damaged")));
}

TEST(CharacterTable, NoneChangesNothing) { EXPECT_EQ(CharacterTable("", "").Apply("a\xef\xac\x81"), "a\xef\xac\x81"); }

// A table of six rules.
TEST(CharacterTable, ClustersFirstThenCharacters) {
  const auto json = ReadJson(TARE_SOURCE_DIR "/tests/data/text/tokenizers/unigram-precompiled.json");
  const CharacterTable table(json["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>(), "");
  EXPECT_EQ(table.Apply("\xef\xac\x81 \xe2\x91\xa0"), "fi 1");
  EXPECT_EQ(table.Apply("e\xcc\x81"), "\xc3\xa9");  // a cluster of three bytes
}

}  // namespace
}  // namespace tare::character_table_test
