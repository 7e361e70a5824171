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
#include "experiments/passes/progress_clock.h"
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
void AddSearch(CLI::App& app);
void AddTokenize(CLI::App& app);
void AddMake(CLI::App& app);
void AddBench(CLI::App& app);
void AddReport(CLI::App& app);
void AddPlot(CLI::App& app);
void AddCompletion(CLI::App& app);
void AddManual(CLI::App& app);
// Subcommands of bench.
void AddBenchAttention(CLI::App& bench);
void AddBenchDecode(CLI::App& bench);
void AddBenchLinear(CLI::App& bench);

// Of a command, those of its option groups among them, which are nameless subcommands.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command);
// body with each command below the program and its words, "bench decode", each before those below it.
void ForCommands(const CLI::App& app,
                 const std::function<void(const std::string& words, const CLI::App& command)>& body);

// Of an option: "got '1,000', expected a whole number of 0 or more".
CLI::Validator WholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

// An option that would change nothing is wrong usage: throws where it was given and `counts` does not hold.
//   --executed: changes nothing without --plan
void RequireEffect(const CLI::App& command, bool counts, std::initializer_list<const char*> options,
                   const std::string& without);

// --quiet: of every command that shows progress.
void AddQuiet(CLI::App& command);

// --threads and --math, applied before the callback runs.
struct MachineOptions {
  int threads = 0;
  std::string math = "f32";

  void AddTo(CLI::App& command);
  void AddThreadsTo(CLI::App& command);
  Math Apply() const;
};

// The processor, as it calls itself; "unknown" where it does not.
std::string CpuName();

// What main was called with: the command that JSON says.
void KeepCommand(int argc, char** argv);

// The object with that command, as a shell takes it again: "command", after its schema.
// Without the options that its figures do not follow from (--out, --threads, --cells ...), but of bench with all. Of a
// list each of its objects; what has no schema stays as it is.
nlohmann::ordered_json WithCommand(const nlohmann::ordered_json& json);

// Writes JSON, with its command, where --json says: a file, whole or not at all, or "-" for standard output; nowhere
// when empty.
void WriteJson(const std::string& target, const nlohmann::ordered_json& json);

// Whether figures for people go to standard output: not when JSON does.
inline bool PrintsTables(const std::string& json_target) { return json_target != "-"; }

// A line on standard error with rate and time left: on a terminal rewritten in place, in its width; elsewhere a line a
// minute.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Progress Callback();
  // What follows is part `part` of `parts`, counted from 0.
  void Begin(const std::string& what, size_t part, size_t parts);

 private:
  void Show(int64_t done, int64_t total, const char* unit);

  bool terminal_;
  bool shown_ = false;
  double last_;
  ProgressClock clock_;
};

}  // namespace tare
