// SPDX-License-Identifier: Apache-2.0
// How decoding uses a model's head table, computed once: output heads that share keys or values form a group, and a
// page's keys and values of a group are read together, once for all its heads. In a group
//
//   row          one softmax map: a query head over a key head; heads with the same map share it (grouped differential)
//   difference   of an output head: map 1 less lambda times map 2, or its one map
//   product      a difference times a value head: a slice of the output head
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/heads.h"
#include "kernels/cache/page_layout.h"

namespace tare {

class DecodeHeads {
 public:
  struct Row {
    int q = 0, k = 0;
    bool operator==(const Row&) const = default;
  };
  struct Difference {
    int head = 0;                          // of the output
    std::array<int, 2> row = {0, kNoMap};  // of each map, of the group
  };
  struct Product {
    int difference = 0, slice = 0, v = 0;  // difference: of the group
  };
  struct Group {
    std::vector<Row> rows;  // by key head
    std::vector<Difference> differences;
    std::vector<Product> products;         // by value head
    int first_row = 0, first_product = 0;  // how many rows and products the groups before have
  };

  // scale: of the attention logits. window: a query sees only the last so many keys; 0: all. skip: a page's values are
  // not read where its keys weigh at most this much in every difference of their group, in magnitude; the output then
  // lacks at most this much per page of the longest row of V; 0 loses nothing. softcap: as an AttentionProblem's.
  // Throws Error for indices beyond q_heads or the shape's heads, a scale that is not positive and finite, a window or
  // softcap below 0, a skip outside [0, 1). A cache checks the shape's sizes.
  DecodeHeads(std::span<const OutputHead> heads, int q_heads, const CacheShape& shape, float scale, int64_t window = 0,
              float skip = 0, float softcap = 0);

  const CacheShape& shape() const { return shape_; }
  int q_heads() const { return q_heads_; }
  int heads() const { return heads_; }  // of the output
  int out_width() const { return slices_ * shape_.v_width; }
  bool differential() const { return differential_; }
  float scale() const { return scale_; }
  int64_t window() const { return window_; }
  float skip() const { return skip_; }
  float softcap() const { return softcap_; }
  const std::vector<Group>& groups() const { return groups_; }
  int rows() const { return rows_; }  // of all groups
  int products() const { return products_; }

 private:
  CacheShape shape_;
  int q_heads_, heads_, slices_;
  bool differential_ = false;
  float scale_;
  int64_t window_;
  float skip_, softcap_;
  std::vector<Group> groups_;
  int rows_ = 0, products_ = 0;
};

}  // namespace tare
