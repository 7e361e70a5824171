// SPDX-License-Identifier: Apache-2.0
// A figure as rows, for its drawing and the table below. Sources here make rows from the material (material.cc);
// KIND.json beside them is the kind's Vega-Lite specification. Kinds without data make no figure.
//
// In specifications, "sort": null keeps the order of the rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/table/table.h"
#include "quant/file/json.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// A report's material, results of other commands: statistics and dumps (.h5), and JSON of `tare stats`, `sweep`,
// `compare`, `attribute`, `search` (or folders), `judge`, `eval`, `maps`, `bench`, `inspect`. Files name their kind.
struct SourceFile {
  std::string path, schema;
  std::vector<std::pair<std::string, std::string>>
      says;  // "model", "novels-standard"; what was run, as the file has it
};

struct ModelStatistics {
  std::string model;
  StatisticsSet set;
};

// A file of `tare dump`, read when a figure needs it.
struct ModelDump {
  std::filesystem::path path;
  std::string model, plan;
};

// One object of a JSON file, with its schema.
struct Document {
  std::string path, schema;
  Json json;
};

struct Sweep {
  std::string path;
  std::vector<SweepCell> cells;
  Comparisons comparisons;
  std::vector<CutModels> cuts;  // of the calibration text

  // The figures that the sweep's tables show, in the order of the cells.
  std::vector<SweepFigure> Figures() const;
};

struct Material {
  std::vector<SourceFile> files;
  std::vector<ModelStatistics> statistics;
  std::vector<ModelDump> dumps;
  std::vector<Document> documents;
  std::vector<Sweep> sweeps;

  // Calls use for each document with the schema. Throws Error, with the file, if a key is missing or of another type.
  void ForEach(std::string_view schema, const std::function<void(const Json&)>& use) const;
};

// Throws Error for unknown schemas, parts of jobs, empty sweeps, one model name of two weights, and repeated files.
Material ReadMaterial(const std::vector<std::filesystem::path>& files);

struct FigureData {
  std::string name;                   // "bits", "maps:probs.entropy": its kind, and which one if there are several
  std::string title, caption;         // the caption has units, n and what bars mean
  Table table;                        // columns are named as in the specification; titles are for the page
  std::vector<std::string> drawn;     // columns: a row with a null in one of them is not drawn
  std::vector<std::string> findings;  // one sentence each, computed from the rows
  std::vector<std::string> missing;   // what could not be drawn; MissingOf adds rows without their number
  bool on_page = true;                // otherwise only for `tare plot`

  std::string Kind() const { return name.substr(0, name.find(':')); }
};

// A table of these columns, each by its name and its title on the page: "low: from"; "model" is both.
Table Titled(const std::vector<std::string>& columns);

// What a text says in place of {{name}}.
using Fillings = std::map<std::string, std::string, std::less<>>;
// The text with each {{name}} replaced once: values are not searched for names.
std::string Filled(std::string_view text, const Fillings& values);

// A figure of the kind without rows: its words, columns and what is drawn, as far as KIND.json has them in "usermeta".
FigureData FigureOfKind(const std::string& kind);
// Fills its title, its caption and the titles of its columns. Once: what is added to them may look like a name.
void FillWords(FigureData& figure, const Fillings& values);

// The one of this name, "channels:embed"; without it a new one of its kind, which is not on the page.
FigureData& FigureNamed(const std::string& name, std::vector<FigureData>& figures);

// The largest of each group, the groups in their first order.
template <typename Range>
auto LargestOfEach(Range&& all, const auto& group, const auto& size) {
  std::vector<decltype(&*std::begin(all))> largest;
  for (auto& one : all) {
    const auto known = std::ranges::find(largest, group(one), [&](const auto* other) { return group(*other); });
    if (known == largest.end()) {
      largest.push_back(&one);
    } else if (size(one) > size(**known)) {
      *known = &one;
    }
  }
  return largest;
}

// `otherwise` for null.
inline double NumberOr(const Json& json, const char* key, double otherwise) {
  return json.at(key).is_null() ? otherwise : json[key].get<double>();
}

// Those that have rows; further ones are numbered: "bits", "bits:2".
std::vector<FigureData> WithRows(std::vector<FigureData> figures);

// NaN for null, which results write in place of NaN.
inline double NumberAt(const Json& json, const char* key) { return NumberOr(json, key, NAN); }

// "novels-standard, attn_logits=int4/row executed" for a tare.eval/1.
std::string EvaluatedName(const Json& evaluation);

std::string RangeName(int64_t first, int64_t last);  // "1", "2 to 3"

// The ends of an interval, in another unit; nulls where there is none.
std::pair<Json, Json> EndsOf(const std::optional<Interval>& interval, double unit = 1);

// A bar's ends: an accuracy's 95 % interval; else that of the change from unquantized, moved to the value; nulls: none.
std::pair<Json, Json> EndsOf(const SweepFigure& row);

// One line per row that the drawing cannot show, with the row's description; then the figure's own gaps.
std::vector<std::string> MissingOf(const FigureData& figure);

using FiguresOfKind = std::vector<FigureData>(const Material& material);
FiguresOfKind LossesOfMethods, LargestMagnitudes, Bits, Differences, Maps, Histograms, Positions, Losses, Needles,
    Channels, RooflineOfKernels, ErrorAgainstBits, CostsOfSites, AttentionOfHeads, ErrorsOfMaps, Frontiers,
    CachesAgainstBits;

// The figure's specification with its rows as data. If it has "concat": COLUMN, its "spec" repeats for each value of
// the column; "$NAME" becomes COLUMN NAME in that value's first row, "$NAME:lines" the same split at ", ".
Json SpecificationOf(const FigureData& figure);

struct FigureKind {
  std::string_view name, what;
  FiguresOfKind* make;
};

// All kinds of figures, in the order of the page.
inline constexpr FigureKind kFigureKinds[] = {
    {"methods", "what quantized files lose against their bits", LossesOfMethods},
    {"differences", "changes compared with those of the first model", Differences},
    {"bits", "accuracy and perplexity against bits", Bits},
    {"largest", "largest magnitudes of attention logits and hidden states by layer", LargestMagnitudes},
    {"maps", "layers x heads of a measure: maps:SITE.MEASURE, as maps:probs.entropy", Maps},
    {"histograms", "magnitudes, and the grid of the codes", Histograms},
    {"channels", "tokens x channels of tare dump: channels:SITE, as channels:layer_out.3", Channels},
    {"needles", "needles found by depth and length", Needles},
    {"positions", "divergence by tokens of context", Positions},
    {"losses", "loss by tokens of context", Losses},
    {"roofline", "kernels against the limits of the machine", RooflineOfKernels},
    {"error", "what formats lose against their bits", ErrorAgainstBits},
    {"attribution", "which site costs what", CostsOfSites},
    {"attention", "maps of a head, query by key, and their error, from tare maps --heads", AttentionOfHeads},
    {"map_errors", "errors of each map and of their difference by layer, from tare maps", ErrorsOfMaps},
    {"frontier", "loss of the cheapest plans against their bits, from tare search", Frontiers},
    {"caches", "divergence of keys and values in few bits against what they take", CachesAgainstBits},
};

// Parts of findings. Each finding is one plain sentence, with subject, verb, figure and, where one is known, interval:
//
//   With 4 bits for attn_logits and one scale per tensor, m's perplexity on heldout rises by 1.69 [1.49, 1.90] over 40
//   windows, from 29.33 to 31.02.

// "accuracy" of "acc"; a figure without words of its own keeps its name.
std::string WordsFor(const std::string& figure);
// "perplexity on heldout", "accuracy on needles-4": a figure of the task "perplexity:heldout", "choice:needles-4".
std::string FigureOnText(const std::string& task, const std::string& figure);

// "rises by 1.69 [1.49, 1.90] over 40 windows, from 29.33 to 31.02" for a change; "stays at 22.000" for none.
std::string MoveText(const SweepFigure& row);
// The whole sentence, with a verdict unless it is significant; of a row without a change, that its cost is not known.
std::string CostSentence(const SweepFigure& row);

// "q=int4/token executed"; of a version as stored the plan that it was quantized by.
std::string RunName(const SweepCell& cell);

// " over 40 windows": what the interval is over; "" without one.
std::string OverText(const Comparison& comparison);

// "20440 tokens of perplexity:heldout in 40 windows of 512 (the default ..)".
std::string CountText(const SweepCell& cell);

// "significant", "not significant", or "not tested": of a task's primary figure after Holm.
const char* VerdictWord(const Comparison& comparison);

// "With 4 bits for attn_logits and one scale per tensor", "Executed with ..."; a plan of several rules is itself named.
std::string PlanWords(const SweepCell& cell);

// "b loses 0.28 [0.15, 0.41] more perplexity on heldout than a" of a row with a difference of drops.
std::string MoreText(const SweepFigure& row);

bool IsInteger(const PlanRow& row);  // int4, u8: its bits say all of its codes

// " nats per token" behind a divergence; "" behind other figures.
const char* UnitText(std::string_view figure);

// "+1.69 [+1.49, +1.90]" of {"value", "low", "high"}, whose ends may be null, in the figure's format.
std::string SignedText(const std::string& task, const std::string& figure, const nlohmann::ordered_json& change);

// As SignedText, for any value of a row by its name, in this format, with the row's "low" and "high".
std::string EndsText(const Json& row, const char* value, const std::string& format);

std::string EstimateText(double value, double error);  // "6.00 +/- 0.50", or "6" where the error is NaN

// "1 token", "2 to 3 tokens" of {"first", "last"}.
std::string ContextText(const nlohmann::ordered_json& range);

std::string RangeText(int64_t first, int64_t last, const std::string& noun);  // "token 2", "tokens 2 to 3"

// "m under q=int4/token with cache keep=h2o/64 (executed)" of a tare.eval/1; "m" of the model without a plan.
std::string EvaluatedText(const nlohmann::ordered_json& evaluation);

}  // namespace tare
