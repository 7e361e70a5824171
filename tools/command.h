// SPDX-License-Identifier: Apache-2.0
// Parts shared by the subcommands: their table, common options, where results are written, and the progress line.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "experiments/passes/progress.h"
#include "kernels/linear/projector.h"

namespace tare {

// One subcommand: adds itself, its options, its example and its callback to the program.
void AddInspect(CLI::App& app);
void AddDump(CLI::App& app);
void AddStats(CLI::App& app);
void AddEval(CLI::App& app);
void AddGenerate(CLI::App& app);
void AddQuantize(CLI::App& app);
void AddPlan(CLI::App& app);
void AddConvert(CLI::App& app);
void AddVerify(CLI::App& app);
void AddSweep(CLI::App& app);
void AddCompare(CLI::App& app);
void AddAttribute(CLI::App& app);
void AddMaps(CLI::App& app);
void AddLevels(CLI::App& app);
void AddSearch(CLI::App& app);
void AddTokenize(CLI::App& app);
void AddMake(CLI::App& app);
void AddProbe(CLI::App& app);
void AddBench(CLI::App& app);
void AddReport(CLI::App& app);
void AddPlot(CLI::App& app);
void AddCompletion(CLI::App& app);
void AddManual(CLI::App& app);
// Subcommands of bench.
void AddBenchAttention(CLI::App& bench);
void AddBenchDecode(CLI::App& bench);
void AddBenchLinear(CLI::App& bench);

// A command's options, with those of its option groups, which are nameless subcommands.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command);
// Calls body for each command below the program with its words, such as "bench decode", parents first.
void ForCommands(const CLI::App& app,
                 const std::function<void(const std::string& words, const CLI::App& command)>& body);

// Of every option of the program: one that takes numbers takes no empty text (which CLI11 reads as 0), nor does --out;
// and --json knows standard output by its device's name too, and has it to itself: oneDNN writes nothing there.
void CheckValues(CLI::App& app);

// Checks an option: "got '1,000', expected a whole number of 0 or more".
CLI::Validator WholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

// An option of such a number, with its default in the help.
template <typename T>
CLI::Option* AddWhole(CLI::App& command, const std::string& name, T& value, const std::string& what, int64_t least,
                      int64_t most = std::numeric_limits<int64_t>::max()) {
  return command.add_option(name, value, what)->check(WholeNumber(least, most))->capture_default_str();
}

// An option of several values, separated by commas: words after it are not its own, or it would take what follows.
template <typename T>
CLI::Option* AddList(CLI::App& command, const std::string& name, std::vector<T>& values, const std::string& what) {
  return command.add_option(name, values, what)->delimiter(',')->allow_extra_args(false);
}

// Refuses options that would have no effect: throws if one is given and `counts` is false.
//   --executed: has no effect without a --plan
void RequireEffect(const CLI::App& command, bool counts, std::initializer_list<const char*> options,
                   const std::string& without);

// --hash-again, for every command that records the hash of weights.
void AddHashAgain(CLI::App& command);
// --quiet, for every command that shows progress.
void AddQuiet(CLI::App& command);

// --threads and --math, applied before the callback runs.
struct MachineOptions {
  int threads = 0;
  std::string math = "f32";

  void AddTo(CLI::App& command);
  void AddThreadsTo(CLI::App& command);
  Math Apply() const;
};

// The processor's own name; "unknown" if it has none.
std::string CpuName();

// Keeps the arguments of main for WithCommand.
void KeepCommand(int argc, char** argv);

// Adds the command line, in shell syntax, to the object: "command", after its schema. Leaves out options that figures
// do not depend on (--out, --threads, --cells ...); bench keeps them all. In a list, adds it to each object; objects
// without a schema stay unchanged.
nlohmann::ordered_json WithCommand(const nlohmann::ordered_json& json);

// Writes JSON, with its command, to the target of --json: a file, whole or not at all, or "-" for standard output; if
// empty, nowhere.
void WriteJson(const std::string& target, const nlohmann::ordered_json& json);

// Whether tables go to standard output: not if JSON does.
inline bool PrintsTables(const std::string& json_target) { return json_target != "-"; }

// A line on standard error with rate and time left: on a terminal it is rewritten in place and fits the width,
// elsewhere there is one line a minute.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Progress Callback();
  // The progress that follows is that of the next run, which so many follow. On a terminal, the number of several runs
  // is shown before the first.
  void Begin(const std::string& what, int64_t runs_after);

 private:
  void Show(int64_t done, int64_t total, const char* unit);
  void Write(const std::string& line);

  bool terminal_;
  bool shown_ = false;
  double last_;
  ProgressClock clock_;
};

}  // namespace tare
