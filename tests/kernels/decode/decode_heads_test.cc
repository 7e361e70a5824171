// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::decode_heads_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

DecodeHeads PlanOf(const std::vector<OutputHead>& heads, int q_heads, int k_heads, int v_heads) {
  return DecodeHeads(heads, q_heads, {.k_heads = k_heads, .k_width = 16, .v_heads = v_heads, .v_width = 32}, 0.25f);
}

// Every output's maps and values are those of its row in the table, each once.
void ExpectTable(const DecodeHeads& table, const std::vector<OutputHead>& heads) {
  size_t outputs = 0;
  for (const DecodeHeads::Group& group : table.groups()) {
    for (const DecodeHeads::Product& product : group.products) {
      const DecodeHeads::Difference& difference = group.differences[product.difference];
      const OutputHead& head = heads[difference.head];
      ++outputs;
      EXPECT_EQ(product.v, head.v[product.slice]);
      for (int map = 0; map < 2; ++map) {
        if (map >= head.Maps()) {
          EXPECT_EQ(difference.row[map], kNoMap);
          continue;
        }
        EXPECT_EQ(group.rows[difference.row[map]].q, head.Q(map));
        EXPECT_EQ(group.rows[difference.row[map]].k, head.K(map));
      }
    }
    for (size_t i = 1; i < group.rows.size(); ++i) EXPECT_LE(group.rows[i - 1].k, group.rows[i].k);
    for (size_t i = 1; i < group.products.size(); ++i) EXPECT_LE(group.products[i - 1].v, group.products[i].v);
  }
  EXPECT_EQ(outputs, heads.size() * heads[0].VSlices());
}

TEST(DecodeHeads, FamiliesBecomeGroupsOfWhatIsReadTogether) {
  struct {
    std::vector<OutputHead> heads;
    int q_heads, k_heads, v_heads;
    size_t groups, rows, products;
  } const cases[] = {
      {StandardHeads(8, 2), 8, 2, 2, 2, 4, 4},
      {V1Heads(4, 4), 8, 8, 4, 4, 2, 1},
      {V1Heads(4, 2), 8, 4, 2, 2, 4, 2},
      {V2Heads(4, 2), 8, 2, 2, 2, 4, 2},
      {DiffLlamaHeads(8, 8), 8, 8, 8, 4, 2, 2},
      {DiffLlamaHeads(8, 4), 8, 4, 4, 2, 4, 4},
      // Four queries with one noise map: its row is there once.
      {GroupedHeads(5, 1, 2), 5, 2, 2, 1, 5, 8},
  };
  for (const auto& c : cases) {
    const DecodeHeads table = PlanOf(c.heads, c.q_heads, c.k_heads, c.v_heads);
    EXPECT_EQ(table.groups().size(), c.groups);
    for (size_t i = 0; i < c.groups; ++i) {
      const DecodeHeads::Group& group = table.groups()[i];
      EXPECT_EQ(group.rows.size(), c.rows);
      EXPECT_EQ(group.products.size(), c.products);
      EXPECT_EQ(group.first_row, static_cast<int>(i * c.rows));
      EXPECT_EQ(group.first_product, static_cast<int>(i * c.products));
    }
    EXPECT_EQ(table.rows(), static_cast<int>(c.groups * c.rows));
    EXPECT_EQ(table.products(), static_cast<int>(c.groups * c.products));
    EXPECT_EQ(table.differential(), c.heads[0].Differential());
    EXPECT_EQ(table.out_width(), 32 * c.heads[0].VSlices());
    ExpectTable(table, c.heads);
  }
}

TEST(DecodeHeads, BadTablesAreNamed) {
  std::vector<OutputHead> heads = V1Heads(2, 2);
  EXPECT_THAT(Call([&] { PlanOf(heads, 3, 4, 2); }),
              ThrowsMessage<Error>(HasSubstr("row 1: got query head 3, expected 0 to 2")));
  EXPECT_THAT(Call([&] { PlanOf(heads, 4, 3, 2); }), ThrowsMessage<Error>(HasSubstr("row 1: got key head 3")));
  EXPECT_THAT(Call([&] { PlanOf(heads, 4, 4, 1); }), ThrowsMessage<Error>(HasSubstr("row 1: got value head 1")));
  heads[1].v[1] = 0;
  EXPECT_THAT(Call([&] { PlanOf(heads, 4, 4, 2); }), ThrowsMessage<Error>(HasSubstr("row 1: got 2 slices of V")));
  EXPECT_THAT(Call([&] { PlanOf({}, 4, 4, 2); }), ThrowsMessage<Error>(HasSubstr("got no rows")));
  heads = V1Heads(2, 2);
  const CacheShape shape{.k_heads = 4, .k_width = 16, .v_heads = 2, .v_width = 32};
  EXPECT_THAT(Call([&] { DecodeHeads(heads, 4, shape, 0.0f); }),
              ThrowsMessage<Error>(HasSubstr("attention scale: got 0")));
  EXPECT_THAT(Call([&] { DecodeHeads(heads, 4, shape, 1.0f, -1); }), ThrowsMessage<Error>(HasSubstr("window: got -1")));
}

}  // namespace
}  // namespace tare::decode_heads_test
