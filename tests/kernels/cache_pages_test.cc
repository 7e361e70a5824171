// SPDX-License-Identifier: Apache-2.0
// Caches whose pages are the caller's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cache/kv_cache.h"
#include "quant/base/message.h"
#include "tests/support/cache_tokens.h"
#include "tests/support/call.h"

namespace tare::cache_pages_test {
namespace {

using namespace cache_tokens;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr CacheRules kByChannel{.k = {Format::kInt4, {Granularity::Kind::kChannel}}, .v = {Format::kInt4}};

// A pool of blocks of one size, as engines have them; forks take theirs from it, too.
TEST(CachePages, AreTheCallers) {
  const Tokens tokens;
  for (const CacheRules& rules : {kInt4, kByChannel}) {
    int64_t held = 0, most = 0;
    const PageSource pool = [&](size_t bytes) {
      most = std::max(most, held += static_cast<int64_t>(bytes));
      auto block = std::make_shared<AlignedBuffer<std::byte>>(bytes);
      std::fill_n(block->data(), bytes, std::byte{0x7f});
      const auto give_back = [&held, block](const std::byte*) { held -= static_cast<int64_t>(block->size()); };
      return std::shared_ptr<std::byte>(block->data(), give_back);
    };
    {
      KvCache own(kShape, rules), cache(kShape, rules, nullptr, pool);
      for (const auto& [begin, end] : {std::pair{0, 70}, {70, 71}, {71, kTokens}}) {
        tokens.AppendTo(own, begin, end);
        tokens.AppendTo(cache, begin, end);
      }
      EXPECT_EQ(Rows(cache), Rows(own));
      EXPECT_EQ(held, static_cast<int64_t>(cache.Bytes()));
      KvCache fork = cache;
      EXPECT_EQ(held, static_cast<int64_t>(cache.Bytes()));
      fork.Truncate(150);
      tokens.AppendTo(fork, 150, 151);
      EXPECT_GT(held, static_cast<int64_t>(cache.Bytes()));
    }
    EXPECT_EQ(held, 0);
    EXPECT_GT(most, 0);
  }
}

TEST(CachePages, AreRefusedWhereTheyAreNoMemory) {
  const Tokens tokens;
  KvCache none(kShape, kInt4, nullptr, [](size_t) { return nullptr; });
  EXPECT_THAT(Call([&] { tokens.AppendTo(none, 0, 1); }), ThrowsMessage<Error>(HasSubstr("got nothing of the source")));
  alignas(64) static std::byte memory[1 << 16];
  KvCache off(kShape, kInt4, nullptr,
              [](size_t) { return std::shared_ptr<std::byte>(memory + 4, [](const std::byte*) {}); });
  EXPECT_THAT(Call([&] { tokens.AppendTo(off, 0, 1); }), ThrowsMessage<Error>(HasSubstr("a misaligned place")));
}

}  // namespace
}  // namespace tare::cache_pages_test
