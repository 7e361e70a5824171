// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/simulated/query_means.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "quant/base/integers.h"
#include "quant/base/message.h"

namespace tare {

std::vector<float> MeansOfRuns(const SiteBlock& block, int n) {
  TARE_CHECK(block.first_row == 0);  // all tokens of the sequence
  const auto columns = static_cast<size_t>(block.first_columns);
  std::vector<double> sums(static_cast<size_t>(CeilDiv(block.rows, int64_t{n})) * columns);
  for (int64_t r = 0; r < block.rows; ++r) {
    double* const of_run = sums.data() + static_cast<size_t>(r / n) * columns;
    for (size_t c = 0; c < columns; ++c) of_run[c] += block.Row(r)[c];
  }
  std::vector<float> means;
  for (const double sum : sums) means.push_back(static_cast<float>(sum / n));
  return means;
}

QueryMeans::QueryMeans(const ResolvedPlan& plan)
    : plan_(plan),
      any_(std::ranges::any_of(plan.plan().rules(), [](const Rule& rule) { return rule.options.smooth_each > 0; })) {}

bool QueryMeans::Wants(Site site, std::optional<int>) const {
  return any_ && (site == Site::kQ || site == Site::kK || site == Site::kAttnLogits);
}

bool QueryMeans::NeedsSurvey(Site site, std::optional<int>) const {
  return any_ && site == Site::kAttnLogits && plan_.NeedsSurvey(site);
}

void QueryMeans::BeginBatch(int64_t) { means_.clear(), keys_.clear(); }

void QueryMeans::Visit(const SiteBlock& block, int) {
  if (block.site == Site::kAttnLogits) return AddProducts(block);
  const std::pair place(block.slot, *block.head);
  if (block.site == Site::kQ) {
    const Rule* const rule = plan_.RuleAt(block.key());
    const int each = rule == nullptr ? 0 : rule->options.smooth_each;
    Means means{each, block.first_columns, each > 0 ? MeansOfRuns(block, each) : std::vector<float>()};
    const std::lock_guard lock(mutex_);
    means_[place] = std::move(means);
    return;
  }
  std::vector<float> keys;
  for (int64_t r = 0; r < block.rows; ++r) keys.insert(keys.end(), block.Row(r).begin(), block.Row(r).end());
  const std::lock_guard lock(mutex_);
  keys_[place] = std::move(keys);
}

// A mean's products with the keys are computed once for all of its rows, in double.
void QueryMeans::AddProducts(const SiteBlock& block) const {
  const Means& means = means_.at({block.slot, *block.head});
  if (means.each == 0) return;
  const std::vector<float>& keys = keys_.at({block.slot, block.key_head});
  std::vector<float> products(static_cast<size_t>(block.Columns(block.rows - 1)));
  int64_t run = -1;
  for (int64_t r = 0; r < block.rows; ++r) {
    if (const int64_t of_row = (block.first_row + r) / means.each; of_row != run) {
      run = of_row;
      const float *const mean = means.values.data() + run * means.width, *key = keys.data();
      for (float& product : products) {
        product = static_cast<float>(std::inner_product(mean, mean + means.width, key, 0.0) * double{block.scale});
        key += means.width;
      }
    }
    const std::span<float> row = block.Row(r);
    for (size_t i = 0; i < row.size(); ++i) row[i] += products[static_cast<size_t>(block.First(r)) + i];
  }
}

}  // namespace tare
