// SPDX-License-Identifier: Apache-2.0
// tare make: items from a text or made up, to choose or generate. kMakers: kinds, with guesses' scores (tare probe).
#include "experiments/model/config/config.h"
#include "experiments/tasks/made/makers.h"
#include "experiments/tasks/probes.h"
#include "quant/file/mapped_file.h"
#include "tools/command.h"

namespace tare {
namespace {

struct MakeArguments {
  std::string model, text, out, json, templates, data;
  std::vector<std::string> orders{"random", "alternating"};
  NeedleQuestion needles;
  ShotQuestion shots;
  VariableQuestion variables;
  ItemGrid grid;
};

// The items of all samples, by their lengths in positions: combinations of each.
struct Volume {
  double combinations = 1;
  std::vector<double> lengths;
};

struct Maker {
  const char *name, *what;
  void (*add)(CLI::App& command, MakeArguments& options);  // its own options
  Volume (*volume)(const MakeArguments& options);
  std::vector<Json> (*make)(const MakeArguments& options);
};

// A tokenizer alone has no limit on positions.
void CheckLengths(const MakeArguments& options) {
  if (!std::filesystem::is_directory(options.model) && !options.model.ends_with(".h5")) return;
  const int64_t most = LoadConfig(options.model).max_positions, longest = std::ranges::max(options.grid.lengths);
  if (longest > most)
    FailUsage("--lengths: got {}, expected at most max_position_embeddings {} of {}", longest, most, options.model);
}

// All items are held until the last is made: some 4 GB. Each takes memory besides its text, as much as kLeastOfItem.
constexpr double kMostPositions = 1e9, kLeastOfItem = 100;

void CheckSize(const MakeArguments& options, const Volume& volume) {
  double positions = 0;
  for (const double length : volume.lengths) positions += std::max(length, kLeastOfItem);
  const auto samples = static_cast<double>(options.grid.samples);
  positions *= samples * volume.combinations;
  if (positions > kMostPositions)
    FailUsage("--samples: got {:.0f} items of {:.3g} positions in all, expected at most {:.0e}; try fewer",
              samples * volume.combinations * static_cast<double>(volume.lengths.size()), positions, kMostPositions);
}

template <typename Question>
std::vector<Json> OfText(const MakeArguments& options, Question question,
                         std::vector<Json> (*make)(const Question&, const Haystack&, const Tokenizer&)) {
  if constexpr (requires { question.grid; }) question.grid = options.grid;
  CheckLengths(options);
  const MappedFile file(options.text);
  const Tokenizer tokenizer = Tokenizer::LoadFile(options.model);
  return make(question, Haystack(file.text(), tokenizer, options.text), tokenizer);
}

std::vector<Json> Needles(const MakeArguments& options) {
  NeedleQuestion question = options.needles;
  if (!options.templates.empty()) question.templates = LoadNeedleTemplates(options.templates);
  return OfText(options, question, MakeNeedles);
}

std::vector<Json> Shots(const MakeArguments& options) {
  ShotQuestion question = options.shots;
  question.samples = options.grid.samples;
  question.seed = options.grid.seed;
  question.answers = options.grid.answers;
  question.orders.clear();
  for (const std::string& order : options.orders) question.orders.push_back(ParseShotOrder(order));
  if (options.text.empty() == options.data.empty())
    throw CLI::ValidationError("--text", options.text.empty()
                                             ? "got none, expected prose, or examples with --data; try --text FILE"
                                             : "got --data too, expected one of the two; try leaving out --data");
  if (!options.data.empty()) return MakeShots(question, LoadExamples(options.data));
  const MappedFile file(options.text);
  return MakeShots(question, Haystack::WordsOf(file.text(), options.text));
}

Volume OfDepths(const MakeArguments& options) {
  return {static_cast<double>(options.grid.depths.size() * options.needles.questions),
          {options.grid.lengths.begin(), options.grid.lengths.end()}};
}

Volume OfShots(const MakeArguments& options) {
  constexpr double kPositionsOfShot = 16;  // of a line made up here, some ten words
  Volume volume{static_cast<double>(options.orders.size() * options.shots.seeds), {}};
  for (const size_t shots : options.shots.shots)
    volume.lengths.push_back(kPositionsOfShot * static_cast<double>(shots));
  return volume;
}

void AddDepths(CLI::App& command, MakeArguments& options) {
  AddModel(command, options.model);
  AddList(command, "--lengths N,...", options.grid.lengths, "positions per item, with <s> and the longest choice")
      ->check(WholeNumber(1, 1 << 24));
  Add(command, "--text FILE", options.text, "prose to make the items from, UTF-8")->required();
  AddList(command, "--depths X,...", options.grid.depths, "where the answer is, 0 (start) to 1 (end)")
      ->check([](const std::string& text) {
        const double depth = ParseNumber<double>(text).value_or(-1);
        return depth >= 0 && depth <= 1 ? std::string() : Formatted("got '{}', expected 0 to 1", text);
      });
}

void AddNeedles(CLI::App& command, MakeArguments& options) {
  NeedleQuestion& needles = options.needles;
  AddDepths(command, options);
  AddWhole(command, "--needles N", needles.needles, "names with numbers in each haystack", 1, 1000);
  AddWhole(command, "--questions N", needles.questions, "questions per haystack, one item each", 1, 1000);
  AddWhole(command, "--values N", needles.values, "numbers of each name, all of them asked for", 1, 1000);
  AddWhole(command, "--names N", needles.names, "names that a question asks for at once", 1, 1000);
  Add(command, "--wrong others|changed|swapped", needles.wrong,
      "wrong choices: any other needle's number, with a digit changed, or with digits swapped");
  Add(command, "--templates FILE", options.templates, "JSON with \"needle\", \"question\" and \"names\"");
}

void AddVariables(CLI::App& command, MakeArguments& options) {
  AddDepths(command, options);
  AddWhole(command, "--chains N", options.variables.chains, "chains of assignments", 1, 1000);
  AddWhole(command, "--hops N", options.variables.hops, "assignments of a variable to the next", 0, 1000);
}

void AddShots(CLI::App& command, MakeArguments& options) {
  Add(command, "--text FILE", options.text, "prose whose words make up the examples; labels are arbitrary");
  Add(command, "--data FILE", options.data, "instead: ready examples, JSON lines {\"text\", \"label\"}");
  ShotQuestion& shots = options.shots;
  AddList(command, "--shots N,...", shots.shots, "examples in the context, over all classes")
      ->check(WholeNumber(1, 1'000'000));
  Add(command, "--classes N", shots.classes, "classes of made-up examples, 2 to 8")->capture_default_str();
  AddList(command, "--orders random|alternating,...", options.orders, "orders of the examples");
  AddWhole(command, "--seeds N", shots.seeds, "draws of each order", 1, 1000);
  Add(command, "--line TEMPLATE", shots.line, "an example; the model completes the last one's label");
}

constexpr Maker kMakers[] = {
    {"needles", "hide sentences in prose and ask about one or more of them", AddNeedles, OfDepths, Needles},
    {"variables", "hide chains of assignments in prose and ask for one", AddVariables, OfDepths,
     [](const MakeArguments& o) { return OfText(o, o.variables, MakeVariables); }},
    {"shots", "list labelled examples, and one more without its label", AddShots, OfShots, Shots},
    {"copies", "repeat a passage of prose up to a name", AddDepths, OfDepths,
     [](const MakeArguments& o) { return OfText(o, o.grid, MakeCopies); }},
};

void RunMaker(const Maker& maker, const MakeArguments& options) {
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model, options.text, options.templates, options.data},
                 {{options.out, "\"maker\":\""}, {options.json, JsonWith("tare.probes/")}});
  CheckSize(options, maker.volume(options));
  const std::vector<Json> items = maker.make(options);
  std::string lines;
  for (const Json& item : items) {
    Json line{{"maker", maker.name}};
    line.update(item);
    lines += JsonText(line) + "\n";
  }
  WriteFileAtomically(options.out, lines);
  const ProbeReport report = ProbeItems(options.out);
  if (PrintsTables(options.json)) {
    PrintLine("{}: {}", Made(options.out), Counted(std::ssize(items), "item"));
    PrintText("{}", ProbeText(report));
  }
  WriteJson(options.json, ProbeJson(report));
}

void AddMaker(CLI::App& make, const Maker& maker) {
  auto options = std::make_shared<MakeArguments>();
  CLI::App* command = make.add_subcommand(maker.name, maker.what);
  maker.add(*command, *options);
  Add(*command, "--answers choices|targets", options->grid.answers, "for --tasks choice=FILE, or generate=FILE");
  AddWhole(*command, "--samples N", options->grid.samples, "items (for needles: haystacks) per combination", 1,
           1'000'000);
  Add(*command, "--seed N", options->grid.seed, "seed of all random draws")->capture_default_str();
  Group(*command, "Output");
  Add(*command, "--out FILE", options->out, "the items, JSON lines")->required();
  AddJson(*command, options->json);
  command->callback([options, &maker] { RunMaker(maker, *options); });
}

struct ProbeArguments {
  std::string items, json;
};

void RunProbe(const ProbeArguments& options) {
  const auto& [items, json] = options;
  const std::vector<AtomicFile> claims = ClaimFiles({items}, {{json, JsonWith("tare.probes/")}});
  const ProbeReport report = ProbeItems(items);
  if (PrintsTables(json)) PrintText("{}", ProbeText(report));
  WriteJson(json, ProbeJson(report));
}

}  // namespace

void AddMake(CLI::App& app) {
  CLI::App* command = app.add_subcommand("make", "make items: retrieval, tracking, examples in context, copying");
  command->require_subcommand(1);
  for (const Maker& maker : kMakers) AddMaker(*command, maker);
}

void AddProbe(CLI::App& app) {
  const auto [command, options] =
      NewCommand<ProbeArguments>(app, "probe", "show what baselines without a model score on items", RunProbe);
  Add(command, "ITEMS", options.items, "JSON lines: choices, as --tasks choice=FILE reads them, or answers to generate")
      ->required();
  AddJson(command, options.json);
}

}  // namespace tare
