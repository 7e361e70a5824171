// SPDX-License-Identifier: Apache-2.0
// Blocks of pages between "<!-- generated: NAME -->" and "<!-- end -->" are what the tables in code print: of sites,
// granularities, formats, options, presets, methods, commands, families and GGUF. The build target write_pages writes
// them (TARE_WRITE_PAGES=1). Tables of results come from tools/results/make.sh (results_page_test.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "experiments/model/config/family.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/interchange/gguf/architecture.h"
#include "quant/interchange/gguf/container.h"
#include "quant/interchange/gguf/vocabulary.h"
#include "quant/plan/plan.h"
#include "quant/plan/presets.h"
#include "quant/plan/site.h"
#include "tests/support/call_tare.h"
#include "tests/support/executed_per.h"

namespace tare::pages_test {
namespace {

using Row = std::vector<std::string>;

std::string Line(const Row& row) {
  std::string line = "|";
  for (std::string cell : row) {
    for (size_t at = cell.find('|'); at != cell.npos; at = cell.find('|', at + 2)) cell.insert(at, "\\");
    line += cell.empty() ? " |" : " " + cell + " |";
  }
  return line + "\n";
}

std::string Table(const Row& header, const std::vector<Row>& rows) {
  std::string table = Line(header) + "|";
  for (size_t i = 0; i < header.size(); ++i) table += "---|";
  table += "\n";
  for (const Row& row : rows) table += Line(row);
  return table;
}

// A row that differs from the last in its first cell alone joins it.
void AddRow(std::vector<Row>& rows, const Row& row) {
  if (!rows.empty() && std::equal(row.begin() + 1, row.end(), rows.back().begin() + 1, rows.back().end())) {
    rows.back()[0] += " " + row[0];
  } else {
    rows.push_back(row);
  }
}

std::string Code(std::string_view word) { return Formatted("`{}`", word); }

// "`a` `b`" of words separated by blanks.
std::string Codes(std::string_view words) {
  std::istringstream each{std::string(words)};
  std::string codes;
  for (std::string word; each >> word;) codes += (codes.empty() ? "" : " ") + Code(word);
  return codes;
}

// A list as messages have it, "a, b or c", as "a b c".
std::string Unlisted(std::string text) {
  for (const std::string between : {", ", " or "}) {
    for (size_t at = text.find(between); at != text.npos; at = text.find(between))
      text.replace(at, between.size(), " ");
  }
  return text;
}

std::string KindOf(Site site) { return WeightOf(site) ? "inputs" : std::string(ClassOf(site).kind); }

std::string Kinds() {
  std::map<std::string, Row> kinds;
  std::vector<std::string> order;
  for (const SiteInfo& info : kSites) {
    const SiteClass& c = ClassOf(info.site);
    std::string granularities, formats, executed;
    for (const Granularity::Kind per : c.granularities) granularities.append(Spelling(per)).append(" ");
    for (const Format& format : c.formats) formats += Name(format) + " ";
    for (const std::string& per : ExecutedPer(info.site)) executed += per + " ";
    const std::string kind = KindOf(info.site);
    const Row row{kind, Codes(granularities), Codes(formats), Codes(c.options), Codes(executed)};
    const auto [at, is_new] = kinds.emplace(kind, row);
    if (is_new) order.push_back(kind);
    EXPECT_EQ(at->second, row) << info.name;
  }
  std::vector<Row> rows;
  for (const std::string& kind : order) rows.push_back(kinds[kind]);
  return Table({"kind", "scale per", "formats", "options", "executed per"}, rows);
}

std::string Sites(bool (*shown)(const SiteInfo& info)) {
  std::vector<Row> rows;
  for (const SiteInfo& info : kSites) {
    if (!shown(info)) continue;
    const char* const group = std::ranges::contains(ExpandSites("weights"), info.site)     ? ", in `weights`"
                              : std::ranges::contains(ExpandSites("linear_in"), info.site) ? ", in `linear_in`"
                                                                                           : "";
    const std::string_view select = ClassOf(info.site).dimensions;
    AddRow(rows,
           {Code(info.name), std::string(info.what) + group, select.empty() ? "" : Code(select), KindOf(info.site)});
  }
  return Table({"site", "what it is", "select", "kind"}, rows);
}

bool IsLinear(const SiteInfo& info) {
  return (IsWeight(info.site) || WeightOf(info.site)) && !IsOfScan(info.site) && !IsOfExperts(info.site) &&
         info.of != SiteOf::kLambda;
}

std::string Granularities() {
  std::vector<Row> rows;
  for (int kind = 0; kind <= static_cast<int>(Granularity::Kind::kBlockChannel); ++kind) {
    const auto per = static_cast<Granularity::Kind>(kind);
    rows.push_back({Code(Spelling(per)), std::string(Meaning(per))});
  }
  return Table({"granularity", "what shares a scale"}, rows);
}

std::string Integers() {
  std::vector<Row> rows;
  for (const FormatRow& row : kFormats) {
    if (row.base == Format::kF32) rows.push_back({Code(row.name), "left as it is"});
    if (row.base == Format::kBf16)
      rows.push_back({Code(row.name), "rounded to bfloat16, without a scale; only in caches"});
    if (IsInteger(row.base))
      rows.push_back({Code(row.name), Formatted("{} to {}", row.info.min_code, row.info.max_code)});
  }
  return Table({"format", "codes"}, rows);
}

// "E2M1: 0 0.5 1 1.5 2 3 4 6": with the values if they are few.
std::string GridText(const FormatInfo& info) {
  const Grid& grid = info.grid;
  if (!grid.evenly.empty()) return "E2M1, or 0 to 7 times 6/7";
  if (info.together > 1) return Formatted("points of {} weights, each an odd quarter", info.together);
  if (grid.levels.data() == kNf4Levels.data()) return "16 quantiles of the normal law";
  if (!grid.levels.empty()) return Formatted("{} Lloyd-Max values", grid.levels.size());
  if (grid.twos_complement) return Formatted("multiples of 1/{}", 1 / grid.Step());
  std::string values;
  int count = 0;
  for (float x = 0; x <= grid.largest && count <= 8; x += grid.Step()) {
    if (Nearest(x, grid) == x && ++count) values += Formatted(" {}", x);
  }
  if (grid.mantissa_bits == 0) return "-1" + values;
  if (grid.Step() == 1) return "integers:" + values;
  const int bias = 1 - std::ilogb(grid.smallest_normal), exponent_bits = std::ilogb(bias + 1) + 1;
  return Formatted("E{}M{}{}", exponent_bits, grid.mantissa_bits, count <= 8 ? ":" + values : "");
}

std::string OtherFormats() {
  std::vector<Row> rows;
  std::set<std::string> shown;
  for (const auto& [format, name, info, type] : kFormats) {
    if (!HasCodes(format) || IsInteger(format) || format == Format::kListed) continue;
    const std::string scale = info.statistic == Statistic::kMean             ? "f32: mean absolute value"
                              : info.statistic == Statistic::kRootMeanSquare ? "f32: root mean square"
                              : type == ScaleType::kF32                      ? "f32: absmax"
                              : IsTwoLevel(type) ? Formatted("E4M3 for {}, f32 per tensor", info.block)
                                                 : Formatted("E8M0 for {}", info.block);
    const float over = info.Largest();
    std::string grid = GridText(info);
    if (!shown.insert(grid).second) grid = grid.substr(0, grid.find(':'));
    rows.push_back(
        {Code(name), grid, Formatted("{}", info.grid.largest),
         scale + (info.statistic == Statistic::kRootMeanSquare && over != 1 ? Formatted(" / {}", over) : "")});
  }
  return Table({"other format", "grid", "largest", "scale"}, rows);
}

// An option whose number may be left out has both forms.
std::string Options() {
  std::vector<Row> rows;
  for (const RuleOption& option : kRuleOptions) {
    std::string forms(option.numbered.empty() ? option.name : option.numbered);
    try {
      if (!option.numbered.empty() && !Plan::Parse(Formatted("k=int8/token+{}", option.name)).empty())
        forms = Formatted("{} {}", option.name, option.numbered);
    } catch (const Error&) {
    }
    rows.push_back({Codes(forms), std::string(option.what)});
  }
  for (const SiteInfo& info : kSites) {
    std::istringstream words{std::string(ClassOf(info.site).options)};
    for (std::string word; words >> word;)
      EXPECT_TRUE(std::ranges::contains(kRuleOptions, word, &RuleOption::name)) << word;
  }
  return Table({"option", "what it does"}, rows);
}

std::string Presets() {
  std::vector<Row> rows;
  for (const PlanPreset& preset : kPlanPresets) {
    if (preset.source.empty()) rows.push_back({Code(preset.name), Code(preset.rules)});
  }
  return Table({"preset", "stands for"}, rows);
}

std::string Recipes() {
  std::string names;
  for (const PlanPreset& preset : kPlanPresets) {
    if (!preset.source.empty()) names.append(preset.name).append(" ");
  }
  return Codes(names) + "\n";
}

// CPU seconds of the step alone, or else of the first method that has it, from the results.
std::string SecondsOf(std::string_view step) {
  std::istringstream lines(GetFile(TARE_SOURCE_DIR "/docs/results/data/methods-time.csv"));
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string method, wall, seconds;
    std::getline(std::getline(std::getline(fields, method, ','), wall, ','), seconds, ',');
    if (method == step) return seconds;
    const size_t plus = method.find('+');
    if (plus == method.npos || !first.empty()) continue;
    const std::string one = method.substr(0, plus), other = method.substr(plus + 1);
    if (one == step || other == step) first = Formatted("{} with `{}`", seconds, one == step ? other : one);
  }
  return first;
}

std::string Methods() {
  std::vector<Row> rows;
  for (const StepKind* kind : AllSteps()) {
    const Step step = kind->read(kind->name);
    const std::string_view options =
        kind->options.starts_with(':') || kind->options.starts_with('[') ? kind->options : "";
    rows.push_back({Code(Formatted("{}{}", kind->name, options)), std::string(kind->help),
                    step.reads_text || step.RoundsByCalibration() ? "yes" : "no", SecondsOf(kind->name)});
  }
  return Table({"step", "what it does", "calibration", "CPU s"}, rows);
}

// Commands by the manual page, each as it describes itself up to the first details; subcommands by name.
std::string Commands() {
  const auto plain = [](std::string text) {
    for (size_t at = text.find('\\'); at != text.npos; at = text.find('\\'))
      text.erase(at, text[at + 1] == '&' ? 2 : 1);
    return text;
  };
  std::istringstream manual(CallTare({"manual"}).out);
  std::vector<Row> rows;
  for (std::string line; std::getline(manual, line);) {
    if (!line.starts_with(".SS tare ")) continue;
    std::string purpose;
    std::getline(manual, purpose);
    for (const char* const details : {": ", "; ", " ("}) purpose = purpose.substr(0, purpose.find(details));
    const std::string name = plain(line.substr(9));
    if (const size_t blank = name.find(' '); blank == name.npos) {
      rows.push_back({Code(name), plain(purpose)});
    } else {
      rows.back()[0] += (rows.back()[0].contains(':') ? " " : ": ") + Code(name.substr(blank + 1));
    }
  }
  return Table({"command", "purpose"}, rows);
}

// The parts that a family has besides llama's layers.
std::string PartsOf(const Family& family) {
  std::string parts;
  const auto add = [&parts](bool has, std::string_view part) {
    if (has) parts.append(parts.empty() ? "" : ", ").append(part);
  };
  const auto has_linear = [&](auto is) { return std::ranges::any_of(family.linear, is); };
  const auto has_vector = [&](std::string_view name) {
    return std::ranges::any_of(family.vectors, [&](const VectorPlace& place) { return place.tensor.contains(name); });
  };
  add(has_vector("lambda") || has_linear([](const LinearPlace& place) { return place.weight == Site::kLambdaProjW; }),
      "differential");
  add(has_linear([](const LinearPlace& place) { return place.weight == Site::kKvBProjW; }), "latents");
  add(has_vector("k_norm"), "norms of q and k");
  add(has_vector("sinks"), "sinks");
  add(has_linear([](const LinearPlace& place) { return IsOfExperts(place.weight); }), "experts");
  add(has_linear([](const LinearPlace& place) { return place.weight == Site::kMambaInProjW; }), "Mamba");
  add(has_linear([](const LinearPlace& place) { return place.weight == Site::kGmuInProjW; }), "memory units");
  add(has_linear([](const LinearPlace& place) { return !place.fused.empty() && !place.experts; }), "fused tensors");
  add(family.activation != "silu", Code(family.activation));
  return parts;
}

std::string Models() {
  std::vector<Row> rows;
  for (const Family* family : Families()) {
    const char* const rotated = family->rotation == Rotation::kNone     ? "no"
                                : family->rotation == Rotation::kStream ? "stream"
                                                                        : "yes";
    AddRow(rows, {Code(family->name), std::string(family->examples), PartsOf(*family), rotated});
  }
  return Table({"`model_type`", "checkpoints, for example", "parts", "`hadamard`"}, rows);
}

std::string Gguf() {
  return Table({"key", "read"}, {{"`general.architecture`", Codes(Unlisted(gguf::ArchitecturesText()))},
                                 {"types of tensors", Codes(Unlisted(gguf::TypesRead()))},
                                 {"`tokenizer.ggml.pre`", Codes(Unlisted(gguf::CuttingsText()))}});
}

struct Block {
  std::string_view page, name;
  std::string (*print)();
};
constexpr Block kBlocks[] = {
    {"docs/reference/sites.md", "site-kinds", Kinds},
    {"docs/reference/sites.md", "sites-linear", [] { return Sites(IsLinear); }},
    {"docs/reference/sites.md", "sites-attention",
     [] {
       return Sites([](const SiteInfo& info) {
         return !IsLinear(info) && !IsOfScan(info.site) && !IsOfExperts(info.site) && !IsCache(info.site);
       });
     }},
    {"docs/reference/sites.md", "sites-mamba",
     [] {  // the page says how those of two Mambas are named
       return Sites([](const SiteInfo& info) { return IsOfScan(info.site) && info.of != SiteOf::kMambaPair; });
     }},
    {"docs/reference/sites.md", "sites-experts",
     [] { return Sites([](const SiteInfo& info) { return IsOfExperts(info.site); }); }},
    {"docs/reference/sites.md", "sites-caches",
     [] { return Sites([](const SiteInfo& info) { return IsCache(info.site); }); }},
    {"docs/reference/plans.md", "granularities", Granularities},
    {"docs/reference/plans.md", "options", Options},
    {"docs/reference/plans.md", "presets", Presets},
    {"docs/reference/plans.md", "recipes", Recipes},
    {"docs/reference/formats.md", "formats-integer", Integers},
    {"docs/reference/formats.md", "formats-other", OtherFormats},
    {"docs/reference/commands.md", "commands", Commands},
    {"docs/reference/supported.md", "models", Models},
    {"docs/guides/weights.md", "methods", Methods},
    {"docs/guides/gguf.md", "gguf", Gguf},
};

// The text with each block as it is printed now; adds the blocks' names.
std::string Regenerated(const std::string& page, const std::string& text, std::set<std::string>& found) {
  constexpr std::string_view kBegin = "<!-- generated: ", kEnd = "<!-- end -->";
  std::istringstream lines(text);
  std::string made;
  for (std::string line; std::getline(lines, line);) {
    made += line + "\n";
    if (!line.starts_with(kBegin) || line.contains("make.sh")) continue;
    const std::string name = line.substr(kBegin.size(), line.find(" -->") - kBegin.size());
    const auto block =
        std::ranges::find_if(kBlocks, [&](const Block& one) { return one.page == page && one.name == name; });
    if (block == std::end(kBlocks)) {
      ADD_FAILURE() << page << ": got a generated block " << name << ", expected one of kBlocks";
      continue;
    }
    found.insert(name);
    made += block->print();
    while (std::getline(lines, line) && line != kEnd) continue;
    made += line + "\n";
  }
  return made;
}

TEST(Pages, BlocksAreWhatCodePrints) {
  namespace fs = std::filesystem;
  const fs::path root = TARE_SOURCE_DIR;
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string page = entry.path().lexically_relative(root), text = GetFile(entry.path()),
                      made = Regenerated(page, text, found);
    if (made == text) continue;
    if (std::getenv("TARE_WRITE_PAGES") != nullptr) {
      PutFile(entry.path(), made);
      continue;
    }
    std::istringstream old_lines(text), new_lines(made);
    std::string got, expected;
    for (int line = 1; std::getline(old_lines, got) && std::getline(new_lines, expected); ++line) {
      if (got == expected) continue;
      ADD_FAILURE() << page << ":" << line << ": got '" << got << "', expected '" << expected
                    << "'; try cmake --build " TARE_BINARY_DIR " --target write_pages";
      break;
    }
  }
  for (const Block& block : kBlocks)
    EXPECT_TRUE(found.contains(std::string(block.name))) << "got no block " << block.name << " in " << block.page;
}

}  // namespace
}  // namespace tare::pages_test
