// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/statistics_job.h"

#include <algorithm>

#include "experiments/model/plan_run.h"
#include "experiments/observe/full_observer.h"
#include "quant/base/error.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

std::vector<std::vector<OutputHead>> TablesOf(const Model& model) {
  std::vector<std::vector<OutputHead>> heads;
  for (const LayerWeights& layer : model.layers()) heads.push_back(layer.heads);
  return heads;
}

// The pass in which the observer learns what it rounds by, if it has one, and the pass that it measures. If there are
// both, each is half of the progress of the batch.
void RunPasses(Model& model, const TokenBatch& batch, FullObserver& observer, const Progress& within) {
  SiteVisitor* const first = observer.FirstPass();
  SiteVisitor* const measured = &observer;
  const int passes = first == nullptr ? 1 : 2;
  const Progress shared = [&](int64_t done, int64_t total, const char* unit) {
    Report(within, done / passes, total, unit);
  };
  if (first != nullptr) ForwardBatch(model, batch, {&first, 1}, shared, 0, batch.Rows());
  ForwardBatch(model, batch, {&measured, 1}, shared, (passes - 1) * batch.Rows(), batch.Rows());
}

}  // namespace

StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version) {
  if (sequences.empty()) Fail("{}: got no sequence to observe", input.path.string());
  StatisticsSet set;
  const size_t step = SequencesPerBatch(sequences);
  set.job = {{"model", model.Name()},
             {"weights_sha256", model.files().ContentHash()},
             {"config_sha256", model.files().ConfigHash()},
             {"input_sha256", input.sha256},
             {"sequences_sha256", HashOf(sequences)},
             {"sequences", std::to_string(sequences.size())},
             {"batch_sequences", std::to_string(step)},
             {"math", model.math() == Math::kBf16 ? "bf16" : "f32"},
             {"version", version}};
  AddOptions(set, options, SiteSelection::Parse(options.sites, ModelSitesOf(model)), ModelSitesOf(model));
  set.units.assign((sequences.size() + step - 1) / step, 0);
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const std::vector<float>& lambda = model.layers()[static_cast<size_t>(layer)].lambda;
    if (lambda.size() == 1) set.lambda[layer] = lambda.front();
  }
  if (options.shard.count > set.units.size())
    FailUsage("--shard: got {} shards, expected at most {}, one per batch of {} sequences", options.shard.count,
              set.units.size(), step);
  return set;
}

StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress) {
  StatisticsSet set = EmptyStatistics(model, input, sequences, options, version);
  FullObserver observer(SiteSelection::Parse(options.sites, ModelSitesOf(model)), ParseMeasuredFormats(options.formats),
                        options.spans, TablesOf(model), options.skip_first);
  const size_t step = SequencesPerBatch(sequences);
  const auto sequences_of = [&](size_t unit) {
    return std::span(sequences).subspan(unit * step, std::min(step, sequences.size() - unit * step));
  };
  const UnitWork work{.positions =
                          [&](size_t unit) {
                            int64_t positions = 0;
                            for (const ScoredSequence& s : sequences_of(unit)) positions += std::ssize(s.tokens);
                            return positions;
                          },
                      .sequences = [&](size_t unit) { return std::ssize(sequences_of(unit)); },
                      .run =
                          [&](size_t unit, const Progress& within) {
                            TokenBatch batch;
                            auto index = static_cast<int64_t>(unit * step);
                            for (const ScoredSequence& s : sequences_of(unit)) batch.Add(index++, s.tokens);
                            if (unit == 0) observer.ObserveWeights(model);
                            RunPasses(model, batch, observer, within);
                          }};
  CollectUnits(set, observer, work, input.bos.has_value(), options, out, progress);
  return set;
}

}  // namespace tare
