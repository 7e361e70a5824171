// SPDX-License-Identifier: Apache-2.0
// tare completion: what may follow the words of a command line, by the program's commands and tables; shells' scripts
// (tools/completion/) start it for each completion, in milliseconds. Where it has none, shells offer files.
//
// bash also cuts words at = and : and replaces the last. fish offers files, also after =, where the condition fails.
#include <functional>

#include "experiments/model/config/family.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/report/figures/figures.h"
#include "experiments/tasks/task.h"
#include "quant/format/format.h"
#include "quant/interchange/gguf/blocks.h"
#include "quant/plan/presets.h"
#include "tools/command.h"

namespace tare {
namespace {

using Words = std::vector<std::string>;

// ---- values

Words NamesIn(const auto& records, auto name, const std::string& end = "") {
  Words names;
  for (const auto& record : records) names.push_back(std::string(std::invoke(name, record)) + end);
  return names;
}

Words Sites(const std::string& end) {
  Words sites = NamesIn(kSites, &SiteInfo::name, end);
  sites.insert(sites.begin(), {"weights" + end, "linear_in" + end});
  return sites;
}

// Names that need nothing in parentheses or after a colon; of those of a class, with "/" where a granularity follows.
Words Formats(const SiteClass* of) {
  Words formats;
  for (const Format& format : SpelledFormats()) {
    const std::string name = Name(format);
    const bool shares = of != nullptr && HasCodes(format) && Info(format).block == 0;
    if (name.find_first_of("(:") == name.npos && (of == nullptr || of->Takes(format)))
      formats.push_back(name + (shares ? "/" : ""));
  }
  return formats;
}

std::string Spelled(Granularity::Kind kind) {
  const std::string_view spelling = Spelling(kind);
  return std::string(spelling.substr(0, spelling.find('<')));
}

Words Granularities(const std::string&) {
  Words names;
  for (int kind = 0; kind < static_cast<int>(Granularity::Kind::kBlockChannel); ++kind)
    names.push_back(Spelled(static_cast<Granularity::Kind>(kind)));
  return names;
}

// What may follow a rule's "=": a format, after "/" a granularity, after "+" an option.
Words RuleOf(const std::string& part) {
  const size_t equals = part.find('='), mark = part.find_last_of("/+"), at = mark == part.npos ? equals : mark;
  const std::span<const Site> sites = ExpandSites(std::string_view(part).substr(0, part.find_first_of("[=")));
  if (sites.empty()) return {};
  const SiteClass& of = ClassOf(sites.front());
  Words words = part[at] == '='   ? Formats(&of)
                : part[at] == '/' ? NamesIn(of.granularities, Spelled)
                                  : CLI::detail::split(std::string(of.options), ' ');
  for (std::string& word : words) word.insert(0, part, 0, at + 1);
  return words;
}

Words Rules(const std::string& part) {
  if (part.contains('=')) return RuleOf(part);
  Words words = Sites("=");
  const Words presets = NamesIn(kPlanPresets, &PlanPreset::name);
  words.insert(words.begin(), presets.begin(), presets.end());
  return words;
}

Words CacheRules(const std::string& part) {
  if (part.starts_with("keep="))
    return NamesIn(KeepPolicies(), [](auto name) { return "keep=" + std::string(name) + "/"; });
  return part.contains('=') ? RuleOf(part) : Words{"cache_k=", "cache_v=", "keep=", "first=", "last="};
}

Words Layouts(const std::string&) {
  Words layouts = NamesIn(Families(), &Family::name);
  layouts.push_back("gguf");
  return layouts;
}

// The values of an option of this name or word in the help: parts between separators; words: those possible for a part.
struct Values {
  std::string_view of;
  char separator;  // 0: the value is no list
  Words (*words)(const std::string& part);
};

constexpr Values kValues[] = {
    {"--cache", ',', CacheRules},
    {"RULES", ',', Rules},
    {"--plans", ',', [](const std::string&) { return NamesIn(kPlanPresets, &PlanPreset::name); }},
    {"--tasks", ',', [](const std::string&) { return NamesIn(AllTasks(), &TaskKind::name, "="); }},
    {"--method", '+', [](const std::string&) { return NamesIn(AllSteps(), &StepKind::name); }},
    {"--figure", 0, [](const std::string&) { return NamesIn(kFigureKinds, &FigureKind::name); }},
    {"--site", ',', [](const std::string&) { return Sites(""); }},
    {"--sites", ',', [](const std::string&) { return Sites(""); }},
    {"--formats", ',', [](const std::string&) { return Formats(nullptr); }},
    {"--granularity", ',', Granularities},
    {"--family", ',', [](const std::string&) { return NamesIn(Families(), &Family::name); }},
    {"--to", 0, Layouts},
    {"--type", 0, [](const std::string&) { return gguf::TypesWritten(); }},
    {"TOPIC", 0, [](const std::string&) { return NamesIn(Topics(), &Topic::name); }},
    {"SHELL", 0, [](const std::string&) { return Words{"bash", "zsh", "fish"}; }},
};

Words ValuesOf(const CLI::Option& option, const std::string& value) {
  const std::string shown = option.get_option_text();  // "f32|bf16", or of a list "f32|bf16,..."
  const auto found = std::ranges::find_if(
      kValues, [&](const Values& values) { return values.of == option.get_name() || values.of == shown; });
  const bool listed = found != std::end(kValues);
  if (!listed && !shown.contains('|')) return {};
  const size_t part = listed && found->separator != 0 ? value.rfind(found->separator) + 1
                      : shown.ends_with(",...")       ? value.rfind(',') + 1
                                                      : 0;
  Words words = listed ? found->words(value.substr(part)) : CLI::detail::split(shown.substr(0, shown.find(',')), '|');
  for (std::string& word : words) word.insert(0, value, 0, part);
  return words;
}

// ---- words of a command line

// The last word, which may be empty, is completed.
Words Completed(const CLI::App& app, const Words& line) {
  const CLI::App* command = &app;
  const CLI::Option* option = nullptr;  // whose value follows
  std::ptrdiff_t given = 0;             // words by their place
  for (const std::string& word : std::span(line).first(line.size() - 1)) {
    const std::vector<const CLI::App*> subs = command->get_subcommands({});
    const auto sub = std::ranges::find(subs, word, &CLI::App::get_name);
    if (option == nullptr && sub != subs.end()) {
      command = *sub;
    } else if (option == nullptr && word.starts_with("-")) {
      option = command->get_option_no_throw(word);
      if (option != nullptr && option->get_expected_max() == 0) option = nullptr;
    } else {
      given += option == nullptr ? 1 : 0;
      option = nullptr;
    }
  }
  std::string word = line.back(), before;
  if (const size_t equals = word.find('='); option == nullptr && word.starts_with("--") && equals != word.npos) {
    option = command->get_option_no_throw(word.substr(0, equals));
    before = word.substr(0, equals + 1);
    word.erase(0, equals + 1);
  }
  Words words;
  if (option != nullptr) {
    words = ValuesOf(*option, word);
  } else if (before.empty()) {
    words = NamesIn(command->get_subcommands({}), [](const CLI::App* sub) { return sub->get_name(); });
    const auto by_place = [](const CLI::Option* one) { return !one->nonpositional(); };
    const std::vector<const CLI::Option*> options = std::as_const(*command).get_options();
    const bool wanted = word.starts_with("-") || given >= std::ranges::count_if(options, by_place);
    for (const CLI::Option* one : options) {
      if (by_place(one)) std::ranges::copy(ValuesOf(*one, word), std::back_inserter(words));
      if (wanted && !by_place(one)) words.push_back(one->get_name());
    }
  }
  std::erase_if(words, [&](const std::string& one) { return !one.starts_with(word); });
  words.erase(std::ranges::unique(words).begin(), words.end());  // tokens<N> and tokens<N>.by8
  for (std::string& one : words) one.insert(0, before);
  return words;
}

struct CompletionArguments {
  std::string shell;
  Words words;
};

}  // namespace

void AddCompletion(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("completion", "print the completion of commands and values for a shell");
  const auto options = std::make_shared<CompletionArguments>();
  Add(command, "SHELL", options->shell, "bash, zsh or fish")->required()->check(OneOf("bash|zsh|fish"));
  Add(command, "WORD", options->words,
      "instead, after --: print what may follow these words, of which the last is begun");
  command.callback([&app, options] {
    const auto& [shell, words] = *options;
    if (words.empty())
      return PrintText("{}", std::ranges::find(CompletionScripts(), std::string_view(shell), &Topic::name)->text);
    for (const std::string& word : Completed(app, words)) PrintLine("{}", word);
  });
}

}  // namespace tare
