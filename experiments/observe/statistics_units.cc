// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/statistics_units.h"

#include <algorithm>

#include "experiments/observe/full_observer.h"
#include "quant/base/error.h"
#include "quant/file/hdf5.h"
#include "quant/file/open_folder.h"
#include "quant/file/sha256.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

static_assert(kMostSkipped < BlockMeter::kSinkTokens);

std::filesystem::path PartOf(const std::filesystem::path& out) { return out.string() + ".part"; }

// It is written over, and removed in the end.
void RequirePart(const std::filesystem::path& part) {
  if (std::filesystem::exists(part) && SchemaOf(part) != kStatisticsSchema)
    Fail("{}: got a file that is no unfinished job of tare stats, expected none; try another --out, or move it",
         part.string());
}

// Takes over what an earlier run of the same job finished.
void TakeUp(StatisticsSet& set, const std::filesystem::path& file, const Shard& shard) {
  const StatisticsSet found = ReadStatistics(file);
  for (size_t unit = 0; unit < found.units.size(); ++unit) {
    if (found.units[unit] == 1 && unit % shard.count != shard.index)
      Fail("{}: holds unit {}, which does not belong to shard {}/{}; try without --resume", file.string(), unit,
           shard.index, shard.count);
  }
  set.Merge(found, "this job", file.string());
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
  if (!options.spans.sha256().empty()) set.job["spans_sha256"] = options.spans.sha256();
  set.skip_first = options.skip_first;
  set.formats = NamesOf(ParseMeasuredFormats(options.formats));
  CheckFormats(set.formats, sites, model);
}

void CollectUnits(StatisticsSet& set, FullObserver& observer, const UnitWork& work, bool has_bos,
                  const StatisticsOptions& options, const std::filesystem::path& out, const Progress& progress) {
  const auto& [index, count] = options.shard;
  const std::filesystem::path part = PartOf(out);
  RequirePart(part);
  if (options.resume && std::filesystem::exists(out)) {
    TakeUp(set, out, options.shard);
  } else if (options.resume && std::filesystem::exists(part)) {
    TakeUp(set, part, options.shard);
  }
  const auto write = [&](const std::filesystem::path& path) {
    set.MergeSites(observer.Take());
    WriteStatistics(set, path);
  };
  int64_t total = 0, since = 0;
  for (size_t unit = index; unit < set.units.size(); unit += count) total += work.positions(unit);
  for (size_t unit = index; unit < set.units.size(); unit += count) {
    if (set.units[unit] == 1) continue;
    ThrowIfStopped();
    if (since >= options.checkpoint) {
      write(part);
      since = 0;
    }
    const auto before = static_cast<int64_t>(set.positions);
    work.run(unit, [&](int64_t done, int64_t, const char* what) { Report(progress, before + done, total, what); });
    const int64_t positions = work.positions(unit), sequences = work.sequences(unit);
    set.units[unit] = 1;
    set.positions += static_cast<uint64_t>(positions);
    set.tokens += static_cast<uint64_t>(positions - (has_bos ? sequences : 0));
    since += sequences;
    Report(progress, static_cast<int64_t>(set.positions), total, "tokens");
  }
  write(out);
  RemoveFile(part);
}

}  // namespace tare
