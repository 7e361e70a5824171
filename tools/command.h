// SPDX-License-Identifier: Apache-2.0
// Shared by subcommands: table, common options, outputs, file checks, progress, help; has messages, JSON and plans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include "experiments/passes/progress.h"
#include "kernels/linear/projector.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"
#include "quant/plan/plan.h"

namespace tare {

struct StatisticsSet;

// One subcommand: adds itself, its options, its examples and its callback to the program.
using AddCommand = void(CLI::App& app);
AddCommand AddInspect, AddPlan, AddDump, AddStats, AddEval, AddGenerate, AddQuantize, AddConvert, AddVerify, AddSweep,
    AddCompare, AddJudge, AddAttribute, AddMaps, AddLevels, AddSearch, AddTokenize, AddMake, AddProbe, AddBench,
    AddReport, AddPlot, AddHelp, AddCompletion, AddManual;
// Subcommands of bench, and of stats: show, merge and diff.
AddCommand AddBenchAttention, AddBenchDecode, AddStatsFiles;

// `tare stats show` of a whole file: one line per site, or the same as JSON; file: its name in the output, or "".
void ShowOverview(const StatisticsSet& set, const std::string& file, const std::string& json);

// Numbers and --out take no empty text (CLI11 reads 0); texts may be pipes (quant/file/files_of_run.h); --json also
// knows standard output's device name and has it to itself: oneDNN is silent. Adds --force where files are written.
void CheckValues(CLI::App& app);

// Checks an option: "got '1,000', expected a whole number of 0 or more".
CLI::Validator WholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
// "got 'f64', expected f32 or bf16"; `words` are "f32|bf16", or of a list "f32|bf16,...".
CLI::Validator OneOf(std::string words);

// A command below another, and its arguments, for `run` once they are parsed.
template <typename Arguments>
struct CommandWith {
  CLI::App& command;
  Arguments& options;
};
template <typename Arguments>
CommandWith<Arguments> NewCommand(CLI::App& parent, const std::string& name, const std::string& what,
                                  void (*run)(const Arguments& options)) {
  CLI::App& command = *parent.add_subcommand(name, what);
  const auto options = std::make_shared<Arguments>();
  command.callback([run, options] { run(*options); });
  return {command, *options};
}
// A run that asks which options were given, or completes them.
template <typename Arguments>
CommandWith<Arguments> NewCommand(CLI::App& parent, const std::string& name, const std::string& what,
                                  void (*run)(const CLI::App& command, Arguments& options)) {
  CLI::App& command = *parent.add_subcommand(name, what);
  const auto options = std::make_shared<Arguments>();
  command.callback([run, &command, options] { run(command, *options); });
  return {command, *options};
}

// Options are declared as help writes them: "--out FILE", "--math f32|bf16" (which takes no other word), or "MODEL", a
// word by its place. `value` is a variable, or a function of the text. Of an enumeration, the words are its values in
// their order. Its value, or a text that is not empty, is the default that help shows.
template <typename T>
CLI::Option* Add(CLI::App& command, const std::string& usage, T&& value, const std::string& what) {
  const size_t space = std::min(usage.find(' '), usage.size());
  const std::string name = usage.substr(0, space), shown = usage.substr(std::min(space + 1, usage.size()));
  CLI::Option* option = nullptr;
  if constexpr (std::is_invocable_v<T, const std::string&>) {
    option = command.add_option_function<std::string>(name, value, what);
  } else if constexpr (std::is_enum_v<std::remove_cvref_t<T>>) {
    const std::vector<std::string> words = CLI::detail::split(shown, '|');
    const auto take = [&value, words](const std::string& word) {
      value = static_cast<std::remove_cvref_t<T>>(std::ranges::find(words, word) - words.begin());
    };
    option = command.add_option_function<std::string>(name, take, what);
    option->default_str(words.at(static_cast<size_t>(value)));
  } else {
    option = command.add_option(name, value, what);
  }
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, std::string>) {
    if (!value.empty()) option->capture_default_str();
  }
  if (shown.contains('|')) option->check(OneOf(shown));
  return option->option_text(shown);
}

// An option of a whole number, with its default in the help.
template <typename T>
CLI::Option* AddWhole(CLI::App& command, const std::string& usage, T& value, const std::string& what, int64_t least,
                      int64_t most = std::numeric_limits<int64_t>::max()) {
  return Add(command, usage, value, what)->check(WholeNumber(least, most))->capture_default_str();
}

// An option of values separated by commas, its default in the help; it does not take the words after it.
template <typename T>
CLI::Option* AddList(CLI::App& command, const std::string& usage, std::vector<T>& values, const std::string& what) {
  return Add(command, usage, values, what)->delimiter(',')->allow_extra_args(false)->capture_default_str();
}

// Begins a group in the help. These come last, in few lines, without the texts that `tare help tasks` has.
inline constexpr const char *kOfTasks = "Of single tasks", *kCommon = "Common";
void Group(CLI::App& command, const char* name);

// Options of many commands. A MODEL is required.
template <typename T>
CLI::Option* AddModel(CLI::App& command, T& model) {
  return Add(command, "MODEL", model, "checkpoint folder, quantized checkpoint or GGUF file (tare help model)")
      ->required()
      ->transform([](const std::string& path) { return HubSnapshot(path).string(); }, "");
}
// `plan`: a text, or the texts of an option that may be repeated.
template <typename T>
CLI::Option* AddPlanOption(CLI::App& command, T& plan, const std::string& what) {
  return Add(command, "--plan RULES", plan, what)->transform(WithGridFiles)->allow_extra_args(false);
}
CLI::Option* AddStatistics(CLI::App& command, std::string& file);
void AddJson(CLI::App& command, std::string& target);

// Refuses options that would have no effect: throws if one is given and `counts` is false.
//   --executed: has no effect without a --plan
void RequireEffect(const CLI::App& command, bool counts, std::initializer_list<const char*> options,
                   const std::string& without);

// Options of kCommon: --quiet where progress is shown; --hash-again where the hash of weights is recorded.
void AddQuiet(CLI::App& command);
// --fresh, for commands that continue what an interrupted one left; where: "OUT.part".
void AddFresh(CLI::App& command, bool& fresh, const std::string& where);
void AddHashAgain(CLI::App& command);

// --threads, --math, what `also` adds (AddHashAgain) and --quiet, of the group kCommon; Apply sets the threads.
struct MachineOptions {
  int threads = 0;
  std::string math = "f32";

  void AddTo(CLI::App& command, AddCommand* also = nullptr);
  void AddThreadsTo(CLI::App& command);
  Math Apply() const;
};

std::string CpuName();  // the processor's own name; "unknown" if it has none

void KeepCommand(int argc, char** argv);  // keeps the arguments of main for WithCommand

// The options that figures depend on, as they were given: {"--tokens", "4096"}, {"MODEL", "m"}.
std::map<std::string, std::string> AskedBy(const CLI::App& command);

// Adds "command", the line in shell syntax, after the object's schema; in a list, to each object; those without a
// schema stay. Leaves out options that figures do not depend on (--out, --threads, --cells ...); bench keeps all.
Json WithCommand(const Json& json);

// Writes JSON, with its command, to a file, whole or not at all; "-": standard output; empty: nowhere.
void WriteJson(const std::string& target, const Json& json);

// An output, and how the command's earlier file begins: its first bytes, and after '*' or '?' what follows within 4 KB,
// anywhere or before a blank. Brackets before do not count: `"ids":[` begins {"ids":[..]}. "": its reader tells.
struct Output {
  std::string path, beginning = {};
};

// The beginnings of JSON by WriteJson ("tare.eval/", or "tare.stats." of several schemas), and of HDF5 files.
std::string JsonWith(const std::string& schema);
std::string Hdf5With(const std::string& schema);

// Checks files before anything runs: no output may be an input or in an input folder, also of those opened later
// (quant/file/files_of_run.h), nor may two be one file; an output replaces only what the same command wrote, or an
// empty file, unless --force is given. Names as on the command line; "" and "-" (standard output) are skipped. Throws
// Error for these conflicts, and if an output cannot be written: a missing folder, no permission, a folder or device of
// that name, another process that writes it. The result keeps other processes from the outputs as long as it lives.
[[nodiscard]] std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs,
                                                 const std::vector<Output>& outputs);
bool Begins(const std::filesystem::path& path, std::string_view beginning);  // whether a file begins so

// An output for the line that says what was made: "S.h5 (replaced)" where it was there before.
std::string Made(const std::string& output);

// ClaimFiles' outputs of a command that writes these names into a folder; empty if it is yet to be made (not its
// parent). Looking removes what a kill left beside it, but no input. Throws Error if it cannot be made.
std::vector<Output> OutputsIn(const std::vector<std::string>& inputs, const std::filesystem::path& folder,
                              const std::vector<std::string>& names);

// OutputsIn of a folder that must not contain any of the files yet.
std::vector<Output> NewFilesIn(const std::vector<std::string>& inputs, const std::filesystem::path& folder,
                               const std::vector<std::string>& names);

void ShowContinued(const std::string& text);  // on standard error, unless --quiet is given

// Begins a new command: what an earlier one was going to make is forgotten.
void ForgetOutputs();

std::filesystem::path WithoutSlash(const std::filesystem::path& folder);  // "a/b" for "a/b/"

// Whether tables go to standard output: not if JSON does.
inline bool PrintsTables(const std::string& json_target) { return json_target != "-"; }

// Rate and time left on standard error: on a terminal rewritten in place, fitting the width; else a line a minute.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Progress Callback();
  // Begins the next run's progress; runs_after follow it. On a terminal the number of several runs shows first.
  void Begin(const std::string& what, int64_t runs_after);

 private:
  void Show(int64_t done, int64_t total, const char* unit);
  void Write(const std::string& line);

  bool terminal_;
  bool shown_ = false;
  double last_;
  ProgressClock clock_;
};

// ---- Help in 80 columns: purpose, usage, options by group, examples, exit status (help.cc)
//
// Texts stay in their column, paragraphs of a command's footer are filled, and examples can still be pasted into a
// shell. A single word is never broken. name: the words that call the command, "tare bench decode".
std::string HelpOf(const CLI::App* app, const std::string& name, CLI::AppFormatMode mode);

// "  name     text", its text from `column` on.
std::string HelpRow(const std::string& name, const std::string& text, size_t column = 24);

// A subject of `tare help TOPIC`: tools/topics/NAME.txt, in which {NAME} stands for a table of the code.
struct Topic {
  std::string_view name, text;
};
std::span<const Topic> Topics();
std::string TopicNames(const std::string& between);  // "model, plan, ..."

// A footer, a topic or a legend in 80 columns: the lines of a paragraph are filled, indented ones keep their breaks.
std::string Paragraphs(const std::string& text);

// Ends of helps, tools/footers/NAME.txt (bench-decode): notes, and two examples or more, whole, broken when shown.
std::span<const Topic> Footers();
std::span<const Topic> CompletionScripts();  // tools/completion/SHELL.txt
void AddFooters(CLI::App& app);
std::string NotesOf(std::string_view footer);  // which some results end with, too

}  // namespace tare
