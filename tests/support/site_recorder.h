// SPDX-License-Identifier: Apache-2.0
// Keeps everything that a pass shows, for tests that compute it again in plain double.
#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "quant/observe/site_visitor.h"
#include "quant/observe/statistics_set.h"

namespace tare {

using Row = std::vector<float>;
struct Seen {
  std::map<std::pair<int64_t, int64_t>, Row> rows;  // (sequence, position)
};

class Recorder : public SiteVisitor {
 public:
  bool Wants(Site, std::optional<int>) const override { return true; }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    Seen& seen = sites[b.key()];
    for (int64_t r = 0; r < b.rows; ++r)
      seen.rows[{b.sequence, b.first_row + r}] = Row(b.Row(r).begin(), b.Row(r).end());
  }
  std::map<SiteKey, Seen> sites;

 private:
  std::mutex mutex_;
};

}  // namespace tare
