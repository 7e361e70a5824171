// SPDX-License-Identifier: Apache-2.0
// Resumed work, the check of formats, the passes of a batch, a job's hash and options, the loop over units, whole jobs.
#include "experiments/observe/statistics_job.h"

#include <algorithm>

#include "experiments/model/plan_run.h"
#include "experiments/observe/full_observer.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/files_of_run.h"
#include "quant/file/hdf5.h"
#include "quant/file/output_folder.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

static_assert(kMostSkipped < BlockMeter::kSinkTokens);

// "--tokens was 4096, is 8192": the options by which an earlier command differs; under equal ones, what its job does.
std::string Difference(const Asked& was, const Asked& is, const std::string& key) {
  const auto in = [](const Asked& asked, const std::string& option) {
    const auto found = asked.find(option);
    return found == asked.end() ? "not given" : found->second;
  };
  Asked options = was;
  if (!was.empty()) options.insert(is.begin(), is.end());
  std::string text;
  for (const auto& [option, value] : options) {
    const std::string before = in(was, option), now = in(is, option);
    if (before != now) text += Formatted("{}{} was {}, is {}", text.empty() ? "" : ", ", option, before, now);
  }
  return text.empty() ? "it differs in " + key : text;
}

// Takes over what an earlier run of the same job finished, and says so.
void TakeUp(StatisticsSet& set, const std::filesystem::path& file, const StatisticsOptions& options, int64_t total) {
  const StatisticsSet found = ReadStatistics(file);
  const auto& [index, count] = options.shard;
  if (const std::string key = set.DiffersIn(found); !key.empty())
    Fail("{}: is of another job: {}; {}", file.string(), Difference(AskedOf(file), options.asked, key), kStartOver);
  for (size_t unit = 0; unit < found.units.size(); ++unit) {
    if (found.units[unit] == 1 && unit % count != index)
      Fail("{}: holds unit {}, which does not belong to shard {}/{}; {}", file.string(), unit, index, count,
           kStartOver);
  }
  set.Merge(found, "this job", file.string());
  SayContinued(file.string(), Formatted("{} of {} tokens", set.positions, total));
}

// Not a damaged one.
bool IsOfJob(const StatisticsSet& set, const std::filesystem::path& file) try {
  return SchemaOf(file) == kStatisticsSchema && set.DiffersIn(ReadStatistics(file)).empty();
} catch (const Error&) {
  return false;
}

// A format that is measured at none of the selected sites is a mistake.
void CheckFormats(const std::vector<std::string>& formats, const SiteSelection& sites, const ModelSites& model) {
  for (const std::string& format : formats) {
    bool measured = false;
    for (const SiteInfo& info : kSites) {
      if (!IsMeasured(info.site, format)) continue;
      for (const SiteKey& key : model.Keys(info.site)) measured = measured || sites.Wants(key.site, key.layer);
    }
    if (!measured && (format.starts_with("int3") || format.starts_with("int2")))
      FailUsage(
          "--formats: {}: got no weights at {}, expected some: other sites have no integers of 3 or 2 bits; try int4",
          format, sites.canonical());
    if (!measured)
      FailUsage("--formats: {}: got none of its heads or channels at {}; try row", format, sites.canonical());
  }
}

int64_t SumOf(std::span<const int64_t> lengths) { return std::ranges::fold_left(lengths, int64_t{0}, std::plus{}); }

// The pass in which the observer learns its scales, if any, and the measuring pass: each half of the batch's progress.
void RunPasses(Model& model, const TokenBatch& batch, FullObserver& observer, const Progress& within) {
  SiteVisitor *const first = observer.FirstPass(), *const measured = &observer;
  const int passes = first == nullptr ? 1 : 2;
  const Progress shared = [&](int64_t done, int64_t total, const char* unit) {
    Report(within, done / passes, total, unit);
  };
  if (first != nullptr) ForwardBatch(model, batch, {&first, 1}, shared, 0, batch.Rows());
  ForwardBatch(model, batch, {&measured, 1}, shared, (passes - 1) * batch.Rows(), batch.Rows());
}

}  // namespace

std::string HashOf(const std::vector<ScoredSequence>& sequences) {
  Sha256 sha;
  for (const ScoredSequence& s : sequences) {
    const int64_t length = std::ssize(s.tokens);
    sha.Add(std::as_bytes(std::span(&length, 1)));
    sha.Add(std::as_bytes(std::span(s.tokens)));
  }
  return sha.Hex();
}

void AddOptions(StatisticsSet& set, const StatisticsOptions& options, const SiteSelection& sites,
                const ModelSites& model) {
  set.job["sites"] = sites.canonical();
  if (!options.calibrate.empty()) {
    ParseCalibratedFormats(options.calibrate);
    set.job[kCalibrateKey] = options.calibrate;
  }
  if (options.layers > 0) set.job["layers"] = std::to_string(options.layers);
  if (!options.spans.sha256.empty()) set.job["spans_sha256"] = options.spans.sha256;
  set.skip_first = options.skip_first;
  set.formats = NamesOf(ParseMeasuredFormats(options.formats));
  CheckFormats(set.formats, sites, model);
}

void CollectUnits(StatisticsSet& set, FullObserver& observer, const UnitWork& work, bool has_bos,
                  const StatisticsOptions& options, const std::filesystem::path& out, const Progress& progress) {
  const auto& [index, count] = options.shard;
  const std::filesystem::path part = out.empty() ? "" : out.string() + ".part";  // written over, removed in the end
  for (const std::filesystem::path& earlier : {out, part}) TakeForOwn(earlier);
  int64_t total = 0, since = 0;
  for (size_t unit = index; unit < set.units.size(); unit += count) total += SumOf(work.lengths(unit));
  const auto note = [&] { NoteKept(Formatted("{} keeps {} of {} tokens", part.string(), set.positions, total)); };
  if (options.fresh) RemoveFile(part);
  if (std::filesystem::exists(part)) {
    TakeUp(set, part, options, total);
    note();
  } else if (!options.fresh && IsOfJob(set, out)) {
    TakeUp(set, out, options, total);
  }
  const auto write = [&](const std::filesystem::path& path) {
    set.MergeSites(observer.Take());
    if (!path.empty()) WriteStatistics(set, path, path == part ? options.asked : Asked());
  };
  const auto earlier = static_cast<int64_t>(set.positions);  // progress is of this run alone
  for (size_t unit = index; unit < set.units.size(); unit += count) {
    if (set.units[unit] == 1) continue;
    ThrowIfStopped();
    if (!part.empty() && since >= options.checkpoint) {
      write(part);
      note();
      since = 0;
    }
    const auto before = static_cast<int64_t>(set.positions) - earlier;
    work.run(unit,
             [&](int64_t done, int64_t, const char* what) { Report(progress, before + done, total - earlier, what); });
    const int64_t positions = SumOf(work.lengths(unit)), sequences = std::ssize(work.lengths(unit));
    set.units[unit] = 1;
    set.positions += static_cast<uint64_t>(positions);
    set.tokens += static_cast<uint64_t>(positions - (has_bos ? sequences : 0));
    since += sequences;
    Report(progress, before + positions, total - earlier, "tokens");
  }
  write(out);
  RemoveFile(part);
  NoteKept("");
}

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
  auto heads = model.layers() | std::views::transform(&LayerWeights::heads) | std::ranges::to<std::vector>();
  FullObserver observer(SiteSelection::Parse(options.sites, ModelSitesOf(model)), ParseMeasuredFormats(options.formats),
                        options.spans, std::move(heads), options.skip_first);
  const size_t step = SequencesPerBatch(sequences);
  std::vector<int64_t> lengths;
  for (const ScoredSequence& s : sequences) lengths.push_back(std::ssize(s.tokens));
  const auto lengths_of = [&](size_t unit) {
    return std::span(lengths).subspan(unit * step, std::min(step, lengths.size() - unit * step));
  };
  const auto run = [&](size_t unit, const Progress& within) {
    if (unit == 0) observer.ObserveWeights(model);
    RunPasses(model, BatchOf(sequences, unit * step, step), observer, within);
  };
  CollectUnits(set, observer, {lengths_of, run}, input.bos.has_value(), options, out, progress);
  return set;
}

}  // namespace tare
