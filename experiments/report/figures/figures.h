// SPDX-License-Identifier: Apache-2.0
// A figure as rows, for its drawing and for the table below it. Each kind of figure has a source in this folder, which
// makes rows from the material, and beside it KIND.json, the Vega-Lite specification that draws them. A kind without
// data in the material makes no figure.
//
// In specifications, "sort": null keeps the order of the rows.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/report/input/material.h"
#include "experiments/table/table.h"

namespace tare {

struct FigureData {
  std::string name;                   // "bits", "maps:probs.entropy": its kind, and which one if there are several
  std::string title, caption;         // the caption has units, n and what bars mean
  Table table;                        // columns are named as in the specification; titles are for the page
  std::vector<std::string> drawn;     // columns: a row with a null in one of them is not drawn
  std::vector<std::string> findings;  // one sentence each (sentences.h), computed from the rows
  std::vector<std::string> missing;   // what could not be drawn; MissingOf adds rows without their number
  bool on_page = true;                // otherwise only for `tare plot`

  std::string Kind() const { return name.substr(0, name.find(':')); }
};

// `otherwise` for null.
inline double NumberOr(const Json& json, const char* key, double otherwise) {
  return json.at(key).is_null() ? otherwise : json[key].get<double>();
}

// NaN for null, which results write in place of NaN.
inline double NumberAt(const Json& json, const char* key) { return NumberOr(json, key, NAN); }

// "novels-standard, attn_logits=int4/row executed" for a tare.eval/1.
std::string EvaluatedName(const Json& evaluation);

// "1", "2 to 3".
std::string RangeName(int64_t first, int64_t last);

// The ends of a bar: the 95 % interval of an accuracy itself, for other figures that of the change from 16 bits, moved
// to the value; nulls where there is none.
std::pair<Json, Json> EndsOf(const SweepFigure& row);

// One line per row that the drawing cannot show, with the row's description; then the figure's own gaps.
std::vector<std::string> MissingOf(const FigureData& figure);

std::vector<FigureData> LargestMagnitudes(const Material& material);
std::vector<FigureData> Bits(const Material& material);
std::vector<FigureData> Differences(const Material& material);
std::vector<FigureData> Maps(const Material& material);
std::vector<FigureData> Histograms(const Material& material);
std::vector<FigureData> Positions(const Material& material);
std::vector<FigureData> Losses(const Material& material);
std::vector<FigureData> Needles(const Material& material);
std::vector<FigureData> Channels(const Material& material);
std::vector<FigureData> RooflineOfKernels(const Material& material);
std::vector<FigureData> ErrorAgainstBits(const Material& material);
std::vector<FigureData> CostsOfSites(const Material& material);
std::vector<FigureData> ErrorsOfMaps(const Material& material);
std::vector<FigureData> Frontiers(const Material& material);
std::vector<FigureData> CachesAgainstBits(const Material& material);

// The specification of the figure's kind, with its rows as data. If it has "concat": COLUMN, its "spec" is repeated for
// each value of the column; in it "$NAME" becomes the value of column NAME in the first row with that value, and
// "$NAME:lines" the same split at ", ".
Json SpecificationOf(const FigureData& figure);

struct FigureKind {
  std::string_view name, what;
  std::vector<FigureData> (*make)(const Material&);
};

// In the order of the page.
inline constexpr FigureKind kFigureKinds[] = {
    {"largest", "largest magnitudes of attention logits and hidden states by layer", LargestMagnitudes},
    {"bits", "accuracy and perplexity against bits", Bits},
    {"differences", "changes compared with those of the first model", Differences},
    {"maps", "layers x heads of a measure: maps:SITE.MEASURE, as maps:probs.entropy", Maps},
    {"histograms", "magnitudes, and the grid of the codes", Histograms},
    {"channels", "tokens x channels of tare dump: channels:SITE, as channels:layer_out.3", Channels},
    {"needles", "needles found by depth and length", Needles},
    {"positions", "divergence by tokens of context", Positions},
    {"losses", "loss by tokens of context", Losses},
    {"roofline", "kernels against the limits of the machine", RooflineOfKernels},
    {"error", "what formats lose against their bits", ErrorAgainstBits},
    {"attribution", "which site costs what", CostsOfSites},
    {"map_errors", "errors of each map and of their difference by layer, from tare maps", ErrorsOfMaps},
    {"frontier", "loss of the cheapest plans against their bits, from tare search", Frontiers},
    {"caches", "divergence of keys and values in few bits against what they take", CachesAgainstBits},
};

}  // namespace tare
