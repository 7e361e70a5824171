// SPDX-License-Identifier: Apache-2.0
// tare stats show, merge, diff: commands on statistics files.
#include <ranges>

#include "experiments/observe/statistics_report.h"
#include "experiments/significance/inference.h"
#include "quant/statistics/statistics_file.h"
#include "tools/command.h"

namespace tare {
namespace {

void AddSite(CLI::App& command, std::optional<Site>& site, const std::string& what) {
  const auto parse = [&site](const std::string& name) {
    if ((site = ParseSite(name))) return;
    std::vector<std::string> names;
    for (const SiteInfo& info : kSites) names.emplace_back(info.name);
    const std::string* const near = NearestOf(name, names);
    if (near == nullptr) FailUsage("--site: got '{}', expected a site; tare help plan lists them", name);
    const SiteInfo& nearest = Info(*ParseSite(*near));
    FailUsage("--site: got '{}', expected a site; the nearest is {}, one of {}", name, nearest.name,
              Listed(kSites | std::views::filter([&](const SiteInfo& info) { return info.of == nearest.of; }), " ",
                     &SiteInfo::name));
  };
  Add(command, "--site NAME", parse, what);
}

Json OverviewJson(const StatisticsSet& set) {
  Json sites = Json::array();
  for (const SiteInfo& info : kSites) {
    if (std::ranges::contains(set.sites | std::views::keys, info.site, &SiteKey::site)) sites.push_back(info.name);
  }
  Json json{{"schema", kStatisticsSchema},
            {"job", set.job},
            {"formats", set.formats},
            {"tokens", set.tokens},
            {"whole", set.Whole()},
            {"sites", sites},
            {"by_site", AllSitesJson(set, SiteJson)},
            {"from", 0},
            {"sqnr_db", OverviewSqnrJson(set, 0)}};
  if (set.skip_first > 0) json["rest"] = {{"from", set.skip_first}, {"sqnr_db", OverviewSqnrJson(set, set.skip_first)}};
  return json;
}

// ---- show

struct ShowOptions {
  std::string file, json, csv;
  std::optional<Site> site;
  std::optional<int> layer;
  bool measures = false;
};

void Show(const ShowOptions& options) {
  if (!options.site && options.csv.empty() && options.measures)
    throw CLI::ValidationError("--site", "got none, nor --csv, for the rows of --measures; try --site attn_logits");
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.file}, {{options.json, JsonWith("tare.stats.")}, {options.csv, "site,layer,head,map,"}});
  StatisticsSet set = ReadStatistics(options.file);
  if (options.layer) KeepLayer(set, *options.layer);
  const auto json_of = options.measures ? MeasuresJson : SiteJson;
  if (!options.site) {
    if (!options.csv.empty()) WriteFileAtomically(options.csv, RowsCsv(AllSitesJson(set, json_of)));
    return ShowOverview(set, options.file, options.json);
  }
  const Json json = json_of(set, *options.site);
  if (PrintsTables(options.json)) PrintText("{}", RowsTable(json));
  if (!options.csv.empty()) WriteFileAtomically(options.csv, RowsCsv(std::span(&json, 1)));
  WriteJson(options.json, json);
}

void AddShow(CLI::App& stats) {
  const auto [command, options] = NewCommand<ShowOptions>(stats, "show", "show what a statistics file holds", Show);
  Add(command, "FILE", options.file, "made by tare stats --out")->required();
  AddSite(command, options.site, "rows of this site, one per layer, head and map");
  Add(command, "--layer N", options.layer, "only this layer")->check(WholeNumber(0));
  command.add_flag("--measures", options.measures, "every measure of each row");
  AddJson(command, options.json);
  Add(command, "--csv FILE", options.csv, "the rows; without --site those of all sites");
}

// ---- merge

struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
};

void Merge(const MergeOptions& options) {
  const std::vector<AtomicFile> claims = ClaimFiles(options.files, {{options.out, Hdf5With("tare.stats.file/")}});
  StatisticsSet set = ReadStatistics(options.files.front());
  for (size_t i = 1; i < options.files.size(); ++i)
    set.Merge(ReadStatistics(options.files[i]), options.files.front(), options.files[i]);
  WriteStatistics(set, options.out);
  PrintLine("{}: {}, {}", Made(options.out), Counted(static_cast<int64_t>(set.tokens), "token"),
            set.Whole() ? "whole" : "not yet the whole job");
}

void AddMerge(CLI::App& stats) {
  const auto [command, options] = NewCommand<MergeOptions>(stats, "merge", "join the shards of one job", Merge);
  Add(command, "FILE", options.files, "made by tare stats --shard I/N --out")->required();
  Add(command, "--out FILE", options.out, "merged file to write")->required();
}

// ---- diff

struct DiffFiles {
  std::string a, b, json;
  bool all = false;
  DiffOptions diff;
};

// Rows of a diff of whole files, which has thousands: about a screen and a half, with their sites.
constexpr size_t kMostRows = 20;

// How the intervals and marks were made.
std::string DiffLegend(const Json& json) {
  if (std::ranges::all_of(json["rows"], [](const Json& row) { return row["low"].is_null(); }))
    return "no intervals of one sequence or group of sequences\n";
  return Formatted(
      "[95 %]: of each row by itself, the middle 95 % of {} bootstrap draws of groups\n"
      "of sequences, {} for A and B; maxima have none\n"
      "* p < 0.05 by Holm over {}, of Student's t of the difference over\n"
      "the draws' standard deviation\n",
      json["draws"].get<int>(), json["paired"].get<bool>() ? "the same" : "separate",
      Counted(json["comparisons"].get<int64_t>(), "comparison"));
}

void Diff(const DiffFiles& options) {
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.a, options.b}, {{options.json, JsonWith("tare.stats.diff/")}});
  const StatisticsSet a = ReadStatistics(options.a), b = ReadStatistics(options.b);
  const Json json = DiffJson(a, b, options.diff);
  const bool narrowed = options.all || options.diff.site || options.diff.layer;
  if (PrintsTables(options.json) && NothingDiffers(json)) {
    PrintLine("nothing differs ({} compared)", Counted(std::ssize(json["rows"]), "row"));
  } else if (PrintsTables(options.json)) {
    PrintText("{}\n{}", DiffTable(json, narrowed ? std::nullopt : std::optional(kMostRows)), DiffLegend(json));
    if (!narrowed) {
      for (const std::string& sentence : SideSentences(a, "A", b, "B")) PrintText("{}", Paragraphs(sentence));
    }
    if (a.job.at("model") != b.job.at("model")) PrintText("{}", Paragraphs(kOneTraining));
  }
  WriteJson(options.json, json);
}

void AddDiff(CLI::App& stats) {
  const auto [command, options] =
      NewCommand<DiffFiles>(stats, "diff", "show the differences of two files (B minus A), with intervals", Diff);
  Add(command, "A", options.a, "a statistics file")->required();
  Add(command, "B", options.b, "another")->required();
  AddSite(command, options.diff.site, "only this site");
  Add(command, "--layer N", options.diff.layer, "only this layer")->check(WholeNumber(0));
  command.add_flag("--all", options.all, Formatted("every row (without --site or --layer: the {} largest)", kMostRows));
  AddWhole(command, "--draws N", options.diff.draws, "draws of the bootstrap", 2, 1000000);
  Add(command, "--seed N", options.diff.seed, "seed of the bootstrap")->capture_default_str();
  AddJson(command, options.json);
}

}  // namespace

void ShowOverview(const StatisticsSet& set, const std::string& file, const std::string& json) {
  if (PrintsTables(json)) {
    PrintText("{}", OverviewTable(set));
    if (set.skip_first > 0)
      PrintLine("from {}: {} of every sequence", set.skip_first, PositionsText("layer_out", set.skip_first));
    PrintLine(
        "layer, head, channel: where absmax is; median and max/median: of that layer; the\n"
        "others: of all layers; channels of weights are their input's");
    PrintLine("{}{} tokens of {} in {} sequences; {}", file.empty() ? "" : Made(file) + ": ", set.tokens,
              set.job.at("model"), set.job.at("sequences"),
              set.Whole() ? "whole" : "a part: merge it with the other shards");
  }
  WriteJson(json, OverviewJson(set));
}

void AddStatsFiles(CLI::App& stats) {
  AddShow(stats);
  AddMerge(stats);
  AddDiff(stats);
}

}  // namespace tare
