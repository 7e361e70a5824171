// SPDX-License-Identifier: Apache-2.0
// tare make: multiple-choice items made from a text, in the format of the choice task.
#include <memory>

#include "experiments/model/config.h"
#include "experiments/tasks/made/copies.h"
#include "experiments/tasks/made/needles.h"
#include "experiments/tasks/made/shots.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"
#include "quant/file/mapped_file.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct MakeArguments {
  std::string model, text, out, templates, data;
  std::vector<int64_t> lengths{512};
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};
  std::vector<std::string> orders{"random", "alternating"};
  std::string wrong = "others";
  NeedleQuestion needles;
  ShotQuestion shots;
  size_t samples = 50;
  uint64_t seed = 1;
};

// A tokenizer alone has no limit on positions.
void CheckLengths(const MakeArguments& options) {
  if (!std::filesystem::is_directory(options.model) && !options.model.ends_with(".h5")) return;
  const int64_t most = LoadConfig(options.model).max_positions, longest = std::ranges::max(options.lengths);
  if (longest > most)
    FailUsage("--lengths: got {}, expected at most max_position_embeddings {} of {}", longest, most, options.model);
}

// The items are held until all are made: so many positions are some 4 GB of text. An item takes memory besides, as much
// as so many positions.
constexpr double kMostPositions = 1e9, kLeastOfItem = 100;

// `lengths`: of each combination but for the samples.
void CheckSize(const MakeArguments& options, double combinations, const std::vector<double>& lengths) {
  double positions = 0;
  for (const double length : lengths) positions += std::max(length, kLeastOfItem);
  const auto samples = static_cast<double>(options.samples);
  positions *= samples * combinations;
  if (positions > kMostPositions)
    FailUsage("--samples: got {:.0f} items of {:.3g} positions in all, expected at most {:.0e}; try fewer",
              samples * combinations * static_cast<double>(lengths.size()), positions, kMostPositions);
}

using Make = std::vector<Json> (*)(const MakeArguments& options, const Haystack& haystack, const Tokenizer& tokenizer);

std::vector<Json> Needles(const MakeArguments& options, const Haystack& haystack, const Tokenizer& tokenizer) {
  NeedleQuestion question = options.needles;
  if (!options.templates.empty()) question.templates = LoadNeedleTemplates(options.templates);
  question.wrong = ParseWrongEndings(options.wrong);
  question.lengths = options.lengths;
  question.depths = options.depths;
  question.samples = options.samples;
  question.seed = options.seed;
  return MakeNeedles(question, haystack, tokenizer);
}

std::vector<Json> Copies(const MakeArguments& options, const Haystack& haystack, const Tokenizer& tokenizer) {
  return MakeCopies({options.lengths, options.depths, options.samples, options.seed}, haystack, tokenizer);
}

void Write(const MakeArguments& options, const std::vector<Json>& items) {
  std::string lines;
  for (const Json& item : items) lines += JsonText(item) + "\n";
  WriteFileAtomically(options.out, lines);
  PrintLine("{}: {}", options.out, Counted(std::ssize(items), "item"));
}

void RunOfText(const MakeArguments& options, Make make) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.model, options.text, options.templates}, {options.out});
  CheckSize(options, static_cast<double>(options.depths.size() * options.needles.questions),
            {options.lengths.begin(), options.lengths.end()});
  CheckLengths(options);
  const MappedFile file(options.text);
  const Tokenizer tokenizer = Tokenizer::LoadFile(options.model);
  Write(options, make(options, Haystack(file.text(), tokenizer, options.text), tokenizer));
}

void RunShots(const MakeArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.text, options.data}, {options.out});
  constexpr double kPositionsOfShot = 16;  // of a line made up here, some ten words
  std::vector<double> lengths;
  for (const size_t shots : options.shots.shots) lengths.push_back(kPositionsOfShot * static_cast<double>(shots));
  CheckSize(options, static_cast<double>(options.orders.size() * options.shots.seeds), lengths);
  ShotQuestion question = options.shots;
  question.orders.clear();
  for (const std::string& order : options.orders) question.orders.push_back(ParseShotOrder(order));
  question.samples = options.samples;
  question.seed = options.seed;
  if (!options.data.empty()) return Write(options, MakeShots(question, LoadExamples(options.data)));
  const MappedFile file(options.text);
  Write(options, MakeShots(question, Haystack::WordsOf(file.text(), options.text)));
}

void AddCommon(CLI::App& command, MakeArguments& options) {
  AddWhole(command, "--samples", options.samples, "items (for needles: haystacks) per combination", 1, 1'000'000);
  command.add_option("--seed", options.seed, "seed of all random draws")->capture_default_str();
  command
      .add_option("--out", options.out, "JSON lines file to write, for --tasks choice=FILE of eval, sweep and compare")
      ->required();
}

void AddOfText(CLI::App& command, const std::shared_ptr<MakeArguments>& options, Make make) {
  command
      .add_option("MODEL", options->model,
                  "checkpoint folder, quantized checkpoint or tokenizer file whose tokenizer counts the lengths")
      ->required();
  command.add_option("--text", options->text, "prose to make the items from, UTF-8")->required();
  AddList(command, "--lengths", options->lengths, "positions per item, including <s> and the longest ending")
      ->check(WholeNumber(1, 1 << 24))
      ->capture_default_str();
  AddList(command, "--depths", options->depths, "where the answer is, from 0 (start) to 1 (end)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  AddCommon(command, *options);
  command.callback([options, make] { RunOfText(*options, make); });
}

void AddNeedles(CLI::App& make) {
  auto options = std::make_shared<MakeArguments>();
  CLI::App* command = make.add_subcommand("needles", "hide sentences in prose and ask about one of them");
  AddWhole(*command, "--needles", options->needles.needles, "needles hidden in each haystack", 1, 1000);
  AddWhole(*command, "--questions", options->needles.questions,
           "questions per haystack, one item each; earlier questions come with their answers", 1, 1000);
  command
      ->add_option("--wrong", options->wrong,
                   "wrong endings: others (needles' numbers), changed (the answer with one digit changed), swapped "
                   "(with two digits swapped)")
      ->check(CLI::IsMember({"others", "changed", "swapped"}))
      ->capture_default_str();
  command->add_option("--templates", options->templates,
                      "JSON with \"needle\" ({name}, {number}), \"question\" ({name}) and \"names\"");
  AddOfText(*command, options, Needles);
  command->footer(
      Examples({"tare make needles experiments/pair/novels-standard --text experiments/pair/heldout.txt --lengths "
                "256,512 --needles 4 --questions 2 --out needles.jsonl",
                "tare eval experiments/pair/novels-standard --tasks choice=needles.jsonl --by depth,length"}));
}

void AddCopies(CLI::App& make) {
  auto options = std::make_shared<MakeArguments>();
  CLI::App* command = make.add_subcommand("copies", "repeat a passage of prose up to a name");
  AddOfText(*command, options, Copies);
  command->footer(
      Examples({"tare make copies experiments/pair/novels-standard --text experiments/pair/heldout.txt --lengths "
                "256,512 --out copies.jsonl",
                "tare eval experiments/pair/novels-standard --tasks choice=copies.jsonl --by length"}));
}

void AddShots(CLI::App& make) {
  auto options = std::make_shared<MakeArguments>();
  CLI::App* command = make.add_subcommand("shots", "list labelled examples, and one more without its label");
  CLI::Option_group* const source = command->add_option_group("source");
  source->add_option("--text", options->text, "prose whose words make up the examples; labels are arbitrary");
  source->add_option("--data", options->data, "or ready examples: JSON lines {\"text\", \"label\"}");
  source->require_option(1);
  ShotQuestion& shots = options->shots;
  AddList(*command, "--shots", shots.shots, "examples in the context, over all classes")
      ->check(WholeNumber(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--classes", shots.classes, "classes of made-up examples, 2 to 8")->capture_default_str();
  AddList(*command, "--orders", options->orders, "order of the examples: random, or alternating by class")
      ->check(CLI::IsMember({"random", "alternating"}))
      ->capture_default_str();
  AddWhole(*command, "--seeds", shots.seeds, "draws of each order", 1, 1000);
  command->add_option("--line", shots.line, "template of an example; the model completes the label of the last one")
      ->capture_default_str();
  AddCommon(*command, *options);
  command->footer(
      Examples({"tare make shots --text experiments/pair/heldout.txt --shots 8,16,32 --out shots.jsonl",
                "tare eval experiments/pair/novels-standard --tasks choice=shots.jsonl --by order,shots --over seed"}));
  command->callback([options] { RunShots(*options); });
}

}  // namespace

void AddMake(CLI::App& app) {
  CLI::App* command = app.add_subcommand("make", "make multiple-choice items: retrieval, examples in context, copying");
  command->require_subcommand(1);
  command->footer(
      Examples({"tare make needles experiments/pair/novels-standard --text experiments/pair/heldout.txt --lengths 256 "
                "--out needles.jsonl",
                "tare eval experiments/pair/novels-standard --tasks choice=needles.jsonl --by depth"}));
  AddNeedles(*command);
  AddShots(*command);
  AddCopies(*command);
}

}  // namespace tare
