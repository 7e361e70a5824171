// SPDX-License-Identifier: Apache-2.0
// Caches whose pages are the caller's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cache/kv_cache.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::cache_pages_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr CacheShape kShape{.k_heads = 2, .k_width = 16, .v_heads = 1, .v_width = 32};
constexpr int64_t kTokens = 200;
constexpr CacheRules kInt4{.k = {Format::kInt4}, .v = {Format::kInt4}};
constexpr CacheRules kByChannel{.k = {Format::kInt4, {Granularity::Kind::kChannel}}, .v = {Format::kInt4}};

void Append(KvCache& cache, int64_t begin, int64_t end) {
  static const std::vector<float> k = RandomNormal(kTokens * 32, 1), v = RandomNormal(kTokens * 32, 2);
  cache.Append(DenseHeads(k.data() + begin * 32, end - begin, 2, 16),
               DenseHeads(v.data() + begin * 32, end - begin, 1, 32));
}

// All rows as they are read.
std::vector<float> Rows(const KvCache& cache) {
  std::vector<float> k(cache.tokens() * 32), v(k.size());
  cache.Read(0, DenseHeads(k.data(), cache.tokens(), 2, 16), DenseHeads(v.data(), cache.tokens(), 1, 32));
  k.insert(k.end(), v.begin(), v.end());
  return k;
}

// A pool of blocks of one size, as engines have them; forks take theirs from it, too.
TEST(CachePages, AreTheCallers) {
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
        Append(own, begin, end);
        Append(cache, begin, end);
      }
      EXPECT_EQ(Rows(cache), Rows(own));
      EXPECT_EQ(held, static_cast<int64_t>(cache.Bytes()));
      KvCache fork = cache;
      EXPECT_EQ(held, static_cast<int64_t>(cache.Bytes()));
      fork.Truncate(150);
      Append(fork, 150, 151);
      EXPECT_GT(held, static_cast<int64_t>(cache.Bytes()));
    }
    EXPECT_EQ(held, 0);
    EXPECT_GT(most, 0);
  }
}

TEST(CachePages, AreRefusedWhereTheyAreNoMemory) {
  KvCache none(kShape, kInt4, nullptr, [](size_t) { return nullptr; });
  EXPECT_THAT(Call([&] { Append(none, 0, 1); }), ThrowsMessage<Error>(HasSubstr("got nothing of the source")));
  alignas(64) static std::byte memory[1 << 16];
  KvCache off(kShape, kInt4, nullptr,
              [](size_t) { return std::shared_ptr<std::byte>(memory + 4, [](const std::byte*) {}); });
  EXPECT_THAT(Call([&] { Append(off, 0, 1); }), ThrowsMessage<Error>(HasSubstr("a misaligned place")));
}

}  // namespace
}  // namespace tare::cache_pages_test
