// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/importance.h"

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/interchange/gguf/architecture.h"

namespace tare {
namespace {

std::string NameInFile(const ModelConfig& config, const LinearLayer& linear) {
  const LinearPlace& place = *linear.place;
  const std::string stored =
      LayerTensor(config, linear.layer, place.fused.empty() ? place.tensor : place.fused) + ".weight";
  const gguf::Architecture* const known = gguf::ArchitectureOfFamily(config.family);
  const std::string theirs = gguf::FileName(known != nullptr ? *known : *gguf::ArchitectureOfFamily("llama"), stored);
  return theirs.empty() ? stored : theirs;
}

gguf::Imatrix::Entry EntryOf(const StatisticsSet& set, const ModelConfig& config, const LinearLayer& linear) {
  const auto channels = static_cast<size_t>(ShapeOf(linear.place->weight, config).in);
  const SiteStatistics* const s = FindIn(set.sites, linear.InputKey());
  if (linear.expert)
    Fail("imatrix: statistics hold the inputs of all experts together, expected a model without; try llama-imatrix");
  if (s == nullptr || s->channel_energy.size() != channels || s->outliers.count() == 0 || s->outliers.nonfinite > 0)
    Fail(
        "imatrix: {}: got no finite sums of {} channels in the statistics, expected those of every input; try tare "
        "stats without --sites",
        TextOf(linear.InputKey()), channels);
  gguf::Imatrix::Entry entry{.sums = {}, .counts = {static_cast<float>(s->outliers.count() / channels)}};
  for (size_t c = 0; c < channels; ++c) entry.sums.push_back(static_cast<float>(s->channel_energy.Value(c)));
  return entry;
}

}  // namespace

std::vector<float> ImportanceOf(const gguf::Imatrix& matrix, const ModelConfig& config, const LinearLayer& linear) {
  const std::string name = NameInFile(config, linear);
  const auto experts = static_cast<size_t>(linear.expert ? config.experts : 1);
  const size_t values = experts * static_cast<size_t>(ShapeOf(linear.place->weight, config).in);
  const gguf::Imatrix::Entry none, *const found = FindIn(matrix.entries, name);
  const gguf::Imatrix::Entry& entry = found != nullptr ? *found : none;
  if (entry.sums.size() != values || (entry.counts.size() != 1 && entry.counts.size() != experts))
    Fail("{}: '{}': got {} sums and {} counts, expected {} and {}; is it of this model?", matrix.where, name,
         entry.sums.size(), entry.counts.size(), values, experts);
  return entry.Means(static_cast<size_t>(linear.expert.value_or(0)), experts);
}

gguf::Imatrix ImatrixOf(const StatisticsSet& set, const ModelConfig& config) {
  gguf::Imatrix made{.chunk_count = 1, .chunk_size = static_cast<int64_t>(set.positions)};
  if (const auto* input = FindIn(set.job, "input_sha256")) made.datasets.push_back("sha256 " + *input);
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer))
      made.entries[NameInFile(config, linear)] = EntryOf(set, config, linear);
  }
  return made;
}

}  // namespace tare
