// SPDX-License-Identifier: Apache-2.0
// Outlier statistics of a model's attention logits (per layer and head) and hidden states (layer_out, per layer): the
// figures of the Differential Transformer's table 5. Memory is bounded by the model: one OutlierStatistics per layer
// and head.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "experiments/model/family.h"
#include "quant/observe/outliers.h"
#include "quant/observe/site_visitor.h"

namespace tare {

// Where the table's figures come from: merged over what is not given.
class OutlierFigures {
 public:
  virtual ~OutlierFigures() = default;
  virtual OutlierStatistics AttentionLogits(std::optional<int> layer = {}, std::optional<int> head = {},
                                            std::optional<int> map = {}) const = 0;
  virtual OutlierStatistics HiddenStates(std::optional<int> layer = {}) const = 0;
};

class OutlierObserver : public SiteVisitor, public OutlierFigures {
 public:
  explicit OutlierObserver(const ModelConfig& config);

  bool Wants(Site site, std::optional<int> layer) const override;
  void Visit(const SiteBlock& block, int thread) override;

  // Not while a pass runs.
  OutlierStatistics AttentionLogits(std::optional<int> layer = {}, std::optional<int> head = {},
                                    std::optional<int> map = {}) const override;
  OutlierStatistics HiddenStates(std::optional<int> layer = {}) const override;

 private:
  struct Target {
    std::mutex mutex;
    OutlierStatistics statistics;
  };
  // A thread keeps adding to one target until its next block belongs to another.
  struct Worker {
    OutlierAccumulator accumulator;
    Target* target = nullptr;
    uint64_t pending = 0;
  };

  static void Switch(Worker& worker, Target* target);
  void Settle() const;  // flushes every worker

  const int layers_, heads_;
  const std::vector<OutputHead> table_;
  std::vector<std::unique_ptr<Target>> logits_;   // [layer][head]
  std::vector<std::unique_ptr<Target>> hidden_;   // [layer]
  std::vector<std::unique_ptr<Worker>> workers_;  // a thread
};

}  // namespace tare
