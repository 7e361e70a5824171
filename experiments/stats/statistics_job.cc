// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/statistics_job.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "experiments/model/sites_of_model.h"
#include "experiments/stats/full_observer.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/file/checkpoint.h"
#include "quant/file/sha256.h"
#include "quant/statistics/calibration_file.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

std::string HashOf(const std::vector<ScoredSequence>& sequences) {
  Sha256 sha;
  for (const ScoredSequence& s : sequences) {
    const int64_t length = std::ssize(s.tokens);
    sha.Add(std::as_bytes(std::span(&length, 1)));
    sha.Add(std::as_bytes(std::span(s.tokens)));
  }
  return sha.Hex();
}

std::vector<std::vector<OutputHead>> TablesOf(const Model& model) {
  std::vector<std::vector<OutputHead>> heads;
  for (const LayerWeights& layer : model.layers()) heads.push_back(layer.heads);
  return heads;
}

// A format that none of the selected sites has sums of is a mistake.
void CheckFormats(const std::vector<std::string>& formats, const SiteSelection& sites, const ModelSites& model) {
  for (const std::string& format : formats) {
    bool measured = false;
    for (const SiteInfo& info : kSites) {
      if (!IsMeasured(info.site, format)) continue;
      for (const SiteKey& key : model.Keys(info.site)) measured = measured || sites.Wants(key.site, key.layer);
    }
    if (!measured) Fail("--formats: {}: got none of its heads or channels at {}; try row", format, sites.canonical());
  }
}

std::filesystem::path PartOf(const std::filesystem::path& out) { return out.string() + ".part"; }

// What an earlier run of this very job left.
void TakeUp(StatisticsSet& set, const std::filesystem::path& file, const Shard& shard) {
  const StatisticsSet found = ReadStatistics(file);
  for (size_t unit = 0; unit < found.units.size(); ++unit) {
    if (found.units[unit] == 1 && unit % shard.count != shard.index)
      Fail("{}: holds unit {}, which is not of shard {}/{}; try without --resume", file.string(), unit, shard.index,
           shard.count);
  }
  set.Merge(found, "this job", file.string());
}

// Runs unit after unit and keeps what is done.
class Collector {
 public:
  Collector(Model& model, const std::vector<ScoredSequence>& sequences, const StatisticsOptions& options,
            StatisticsSet& set)
      : model_(model),
        sequences_(sequences),
        observer_(SiteSelection::Parse(options.sites, ModelSitesOf(model)), ParseMeasuredFormats(options.formats),
                  options.spans, TablesOf(model)),
        set_(set) {}

  // Returns how many positions it had.
  int64_t Run(size_t unit, bool has_bos) {
    const size_t step = SequencesPerBatch(sequences_);
    TokenBatch batch;
    for (size_t i = unit * step; i < std::min((unit + 1) * step, sequences_.size()); ++i)
      batch.Add(static_cast<int64_t>(i), sequences_[i].tokens);
    if (unit == 0) observer_.ObserveWeights(model_);
    if (SiteVisitor* const first = observer_.FirstPass()) model_.Forward(batch, {&first, 1});
    SiteVisitor* const visitors[] = {&observer_};
    model_.Forward(batch, visitors);
    set_.units[unit] = 1;
    set_.positions += static_cast<uint64_t>(batch.Rows());
    set_.tokens += static_cast<uint64_t>(batch.Rows()) - (has_bos ? batch.sequences.size() : 0);
    return batch.Rows();
  }
  void Write(const std::filesystem::path& path) {
    set_.MergeSites(observer_.Take());
    WriteStatistics(set_, path);
  }

 private:
  Model& model_;
  const std::vector<ScoredSequence>& sequences_;
  FullObserver observer_;
  StatisticsSet& set_;
};

}  // namespace

Shard ParseShard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto [slash, bad_index] = std::from_chars(text.data(), end, shard.index);
  const bool has_slash = bad_index == std::errc() && slash != end && *slash == '/';
  const auto [rest, bad_count] = std::from_chars(has_slash ? slash + 1 : end, end, shard.count);
  if (!has_slash || bad_count != std::errc() || rest != end || shard.index >= shard.count)
    Fail("--shard: got '{}', expected i/n with i from 0 to n - 1, for example 0/4", text);
  return shard;
}

StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version) {
  if (sequences.empty()) Fail("{}: got no sequence to observe", input.path.string());
  StatisticsSet set;
  const size_t step = SequencesPerBatch(sequences);
  const std::string config = CheckpointText(model.folder(), "config.json").value_or("");
  set.job = {{"model", model.Name()},
             {"weights_sha256", model.files().ContentHash()},
             {"config_sha256", Sha256Hex(std::as_bytes(std::span(config)))},
             {"input_sha256", input.sha256},
             {"sequences_sha256", HashOf(sequences)},
             {"sequences", std::to_string(sequences.size())},
             {"batch_sequences", std::to_string(step)},
             {"math", model.math() == Math::kBf16 ? "bf16" : "f32"},
             {"sites", SiteSelection::Parse(options.sites, ModelSitesOf(model)).canonical()},
             {"version", version}};
  if (!options.calibrate.empty()) {
    ParseCalibratedFormats(options.calibrate);
    set.job[kCalibrateKey] = options.calibrate;
  }
  if (!options.spans.sha256().empty()) set.job["spans_sha256"] = options.spans.sha256();
  set.formats = NamesOf(ParseMeasuredFormats(options.formats));
  CheckFormats(set.formats, SiteSelection::Parse(options.sites, ModelSitesOf(model)), ModelSitesOf(model));
  set.units.assign((sequences.size() + step - 1) / step, 0);
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const std::vector<float>& lambda = model.layers()[static_cast<size_t>(layer)].lambda;
    if (lambda.size() == 1) set.lambda[layer] = lambda.front();
  }
  if (options.shard.count > set.units.size())
    Fail("--shard: got {} shards, expected at most {}, one per batch of {} sequences", options.shard.count,
         set.units.size(), step);
  return set;
}

StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress) {
  StatisticsSet set = EmptyStatistics(model, input, sequences, options, version);
  const std::filesystem::path part = PartOf(out);
  if (options.resume && std::filesystem::exists(out)) {
    TakeUp(set, out, options.shard);
  } else if (options.resume && std::filesystem::exists(part)) {
    TakeUp(set, part, options.shard);
  }
  Collector collector(model, sequences, options, set);
  int64_t done = static_cast<int64_t>(set.positions), total = 0, since = 0;
  const size_t step = SequencesPerBatch(sequences);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (i / step % options.shard.count == options.shard.index) total += std::ssize(sequences[i].tokens);
  }
  for (size_t unit = options.shard.index; unit < set.units.size(); unit += options.shard.count) {
    if (set.units[unit] == 1) continue;
    ThrowIfStopped();
    if (since >= options.checkpoint) {
      collector.Write(part);
      since = 0;
    }
    done += collector.Run(unit, input.bos.has_value());
    since += static_cast<int64_t>(step);
    Report(progress, done, total, "tokens");
  }
  collector.Write(out);
  std::filesystem::remove(part);
  return set;
}

}  // namespace tare
