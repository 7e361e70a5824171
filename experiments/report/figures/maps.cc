// SPDX-License-Identifier: Apache-2.0
// Layers x heads of a measure (docs/reference/statistics-file.md), a panel per model and map; the page shows some,
// `tare plot` any. The error of a plan in each map and in the difference of two, by layer, from `tare maps`
// (experiments/studies/attribution/map_errors.h); with --heads, a head's maps, their difference and the plan's error,
// query by key: draw.js draws a panel's cells as an image, a pixel each.
#include <cctype>
#include <ranges>

#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// A measure that is on the page, in words, for "The largest WORDS is ...", and how it follows from the values.
struct MeasureWords {
  std::string_view measure, words, definition;
};
constexpr MeasureWords kWords[] = {
    {"attn_logits.absmax", "magnitude of attention logits", "the largest |x|, scaled, before the softmax; no unit"},
    {"attn_logits.kurtosis", "kurtosis of attention logits",
     "their fourth central moment over the square of their variance: 3 of a normal distribution"},
    {"probs.entropy", "entropy of attention", "-sum p ln p over the keys of a query, nats, mean over queries"},
    {"probs.sink_mass", "attention to the first key",
     "the share that a query gives to the first key, 0 where a window hides it, mean over queries"},
    {"difference.negative_mass", "negative part of the difference of maps",
     "the sum of the magnitudes of the negative entries of P1 - lambda P2 of a query, mean over queries"},
    {"difference.cancellation", "norm of the difference of maps, relative to the first map",
     "|P1 - lambda P2| / |P1| of a query, mean over queries"}};

// A measure without words of its own is named as the reference page defines it. Points into `measure`.
MeasureWords WordsOf(std::string_view measure) {
  const auto known = std::ranges::find(kWords, measure, &MeasureWords::measure);
  if (known != std::end(kWords)) return *known;
  return {measure, measure, "defined in docs/reference/statistics-file.md of Tare's sources"};
}

std::string Capitalized(std::string_view words) {
  std::string text(words);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// Where each panel has its largest. That of logits is said of the figure of largest magnitudes.
void AddFindings(FigureData& figure, const std::string& measure) {
  if (measure == "attn_logits.absmax") return;
  const auto has_value = [](const Json& row) { return !row.at("value").is_null(); };
  std::string text;
  for (const Json* row : LargestOfEach(
           figure.table.rows | std::views::filter(has_value), [](const Json& row) { return row.at("panel"); },
           [](const Json& row) { return NumberAt(row, "value"); }))
    text +=
        Formatted("{} {:.4g} in {}, head {} of layer {}",
                  text.empty() ? Formatted("The largest {} is", WordsOf(measure).words) : ";", NumberAt(*row, "value"),
                  row->at("panel").get<std::string>(), row->at("head").get<int>(), row->at("layer").get<int>());
  if (!text.empty()) figure.findings.push_back(text + ".");
}

constexpr const char* kDifference = "difference";
// Figures of maps, of both, and of differences.
constexpr const char* kErrorFigures[] = {"logit_rms",    "shiftless_rms", "exp_bias", "half_variance", "peak",
                                         "peak_formula", "common",        "low",      "high"};

// A name for the panel of a run and plan: runs on different texts may have the same model and plan.
std::string NewPanel(const std::string& panel, const Table& table) {
  std::string name = panel;
  for (int run = 2; std::ranges::any_of(table.rows, [&](const Json& row) { return row.at("panel") == name; }); ++run)
    name = Formatted("{}, run {}", panel, run);
  return name;
}

// Adds the row of a map, or of the difference; each lacks figures that the other has.
void AddMap(const Json& place, const Json& map, const Json& of, const Json& positions, Table& table) {
  std::vector<Json> row{place.at("panel"), place.at("layer"), map, NumberAt(of, "error")};
  for (const char* key : kErrorFigures) row.push_back(of.contains(key) ? NumberOrNull(NumberAt(of, key)) : Json());
  row.push_back(positions);
  table.Add(std::move(row));
}

bool IsDifference(const Json& row) { return row.at("map") == kDifference; }

// The row with the largest error among a panel's rows for which `counts` is true; null if there is none.
const Json* LargestRow(const Table& table, const Json& panel, const auto& counts) {
  const Json* largest = nullptr;
  for (const Json& row : table.rows) {
    if (row.at("panel") != panel || !counts(row) || row.at("error").is_null()) continue;
    if (largest == nullptr || NumberAt(row, "error") > NumberAt(*largest, "error")) largest = &row;
  }
  return largest;
}

// `where`: "m under k=int4/token", the panel in words.
void AddFinding(const Json& panel, const std::string& where, FigureData& figure) {
  const Json* const map = LargestRow(figure.table, panel, std::not_fn(IsDifference));
  if (map == nullptr) return;
  std::string text =
      Formatted("In {}, the largest error of an attention map is {:.3g} of the map's norm, in {} of layer {}.", where,
                NumberAt(*map, "error"), map->at("map").get<std::string>(), map->at("layer").get<int64_t>());
  if (const Json* const difference = LargestRow(figure.table, panel, IsDifference))
    text += Formatted(
        " The largest error of the difference of two maps is {:.3g} of its norm, in layer {}; taking the difference "
        "cancels a share of {} of both maps' errors there.",
        NumberAt(*difference, "error"), difference->at("layer").get<int64_t>(),
        EndsText(*difference, "common", "+.3f"));
  figure.findings.push_back(text);
}

void AddPlan(const Json& run, const Json& plan, FigureData& figure) {
  const std::string model = run.at("model");
  const std::string panel = NewPanel(Formatted("{}, {}", model, plan.at("plan").get<std::string>()), figure.table);
  const auto positions = run.at("positions").get<int64_t>();
  for (const Json& layer : plan.at("layers")) {
    const Json place{{"panel", panel}, {"layer", layer.at("layer").get<int64_t>()}};
    int number = 0;
    for (const Json& map : layer.at("maps")) AddMap(place, Formatted("map {}", ++number), map, positions, figure.table);
    if (const Json& difference = layer.at("difference"); !difference.is_null())
      AddMap(place, kDifference, difference, positions, figure.table);
  }
  AddFinding(panel, model + " under " + panel.substr(model.size() + 2), figure);
}

constexpr size_t kMostCells = 128;  // a side

const Json& Checked(const Json& list) {
  if (list.size() > kMostCells)
    Fail("a picture of attention: got {} cells a side, expected at most {}; try tare maps again", list.size(),
         kMostCells);
  return list;
}

// The smallest and the largest cell.
std::pair<double, double> EndsOf(const Json& cells) {
  double low = INFINITY, high = -INFINITY;
  for (const Json& row : Checked(cells)) {
    for (const Json& cell : Checked(row)) {
      if (cell.is_null()) continue;
      low = std::min(low, cell.get<double>()), high = std::max(high, cell.get<double>());
    }
  }
  return low > high ? std::pair(0.0, 0.0) : std::pair(low, high);
}

// Maps have one colour scale; those of differences and errors have 0 in their middle. Returns the largest magnitude.
double AddPanel(const std::string& panel, const Json& cells, bool is_map, const Json& head, Table& table) {
  const auto [low, high] = EndsOf(cells);
  const double most = std::max(std::abs(low), std::abs(high)), end = is_map || most == 0 ? 1 : most;
  table.Add({panel, low, high});
  table.rows.back().update({{"cells", cells},  // from here on for the drawing alone
                            {"unit", is_map ? "probability" : "difference"},
                            {"scheme", is_map ? "viridis" : "blueorange"},
                            {"domain", {is_map ? 0 : -end, end}},
                            {"tokens", head.at("tokens")},
                            {"end", cells.size() * head.at("cell").get<size_t>()}});
  return most;
}

FigureData FigureOf(const std::string& model, const std::string& plan, const Json& head) {
  const std::string place =
      Formatted("head {} of layer {} of {}", head.at("head").get<int>(), head.at("layer").get<int>(), model);
  FigureData figure = FigureOfKind("attention");
  FillWords(figure, {{"place", place},
                     {"tokens", Counted(head.at("tokens").get<int64_t>(), "token")},
                     {"cell", Counted(head.at("cell").get<int64_t>(), "token")},
                     {"plan", plan},
                     {"lambda", head.at("lambda").is_null() ? "" : " lambda is the mean over queries."}});
  const Json &maps = head.at("maps"), &difference = head.at("difference");
  double before = 0;
  for (size_t i = 0; i < maps.size(); ++i)
    before = AddPanel(Formatted("map {}", i + 1), maps[i], true, head, figure.table);
  if (!difference.is_null())
    before = AddPanel(Formatted("difference, lambda = {:.3g}", NumberAt(head, "lambda")), difference, false, head,
                      figure.table);
  const double error = AddPanel("error, " + plan, head.at("error"), false, head, figure.table);
  for (Json& row : figure.table.rows) row["place"] = place;
  figure.findings = {Formatted("In {}, {} changes an entry of {} by at most {:.3g}, where the largest is {:.3g}.",
                               place, plan, difference.is_null() ? "the map" : "the difference of maps", error,
                               before)};
  return figure;
}

}  // namespace

std::vector<FigureData> Maps(const Material& material) {
  std::vector<FigureData> figures;
  for (const ModelStatistics& of : material.statistics) {
    const bool two_maps = std::ranges::any_of(of.set.sites, [](const auto& site) { return site.first.map == 2; });
    for (const auto& [key, s] : of.set.sites) {
      if (!key.layer || !key.head || s.outliers.count() == 0) continue;
      Measures measures = AllMeasures(of.set, key);
      std::erase_if(measures, [](const auto& measure) { return measure.first == "absmax"; });  // of groups of sequences
      measures.emplace(measures.begin(), "absmax", s.outliers.absmax());
      const std::string panel = of.model + (two_maps && key.map ? Formatted(", map {}", *key.map) : "");
      for (const auto& [name, value] : measures)
        FigureNamed(Formatted("maps:{}.{}", Name(key.site), name), figures)
            .table.Add({panel, *key.layer, *key.head, value, s.outliers.count()});
    }
  }
  for (FigureData& figure : figures) {
    const std::string measure = figure.name.substr(5);
    figure.on_page = std::ranges::contains(kWords, measure, &MeasureWords::measure);
    FillWords(figure, {{"words", Capitalized(WordsOf(measure).words)},
                       {"measure", measure},
                       {"definition", std::string(WordsOf(measure).definition)},
                       {"n", figure.table.rows[0].at("n").dump()}});
    AddFindings(figure, measure);
  }
  std::ranges::stable_sort(figures, std::less(), [](const FigureData& f) {
    return std::ranges::find(kWords, std::string_view(f.name).substr(5), &MeasureWords::measure) - kWords;
  });
  return figures;
}

std::vector<FigureData> ErrorsOfMaps(const Material& material) {
  FigureData figure = FigureOfKind("map_errors");
  material.ForEach("tare.maps/1", [&](const Json& run) {
    for (const Json& plan : run.at("plans")) AddPlan(run, plan, figure);
  });
  return WithRows({figure});
}

std::vector<FigureData> AttentionOfHeads(const Material& material) {
  std::vector<FigureData> figures;
  material.ForEach("tare.maps/1", [&](const Json& run) {
    for (const Json& plan : run.at("plans")) {
      for (const Json& head : plan.value("heads", Json::array()))
        figures.push_back(FigureOf(run.at("model"), plan.at("plan"), head));
    }
  });
  return WithRows(figures);
}

}  // namespace tare
