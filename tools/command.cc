// SPDX-License-Identifier: Apache-2.0
// Checks of values, common options, the command line and JSON of results, claimed outputs, and the progress line.
#include "tools/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <fstream>
#include <set>

#include "experiments/bench/roofline.h"
#include "kernels/product/library_settings.h"
#include "quant/base/parallel.h"
#include "quant/file/files_of_run.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// Whether the command that runs shows no progress lines, and whether it replaces files of others.
bool quiet = false, force = false;

// Quotes what a shell would not read as one word.
std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain = "_-+=/.,:@%[]";
  const auto plain = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || kPlain.contains(c); };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Options without effect on figures (destinations, splitting, display): with them equal results would be unequal JSON.
constexpr std::string_view kWithValue[] = {"--out",     "--json",  "--csv",   "--records",
                                           "--threads", "--cells", "--merge", "--checkpoint"};
constexpr std::string_view kFlags[] = {"--quiet", "--fresh", "--force", "--hash-again"};

// A command's words, starting with the program's path. For bench all of them, because it measures threads.
std::string CommandLine(const std::vector<std::string>& words) {
  const bool all = words.size() > 1 && words[1] == "bench";
  std::string command = "tare";
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (!all && std::ranges::contains(kFlags, name)) continue;
    if (!all && std::ranges::contains(kWithValue, name)) {
      if (name == word) ++i;
      continue;
    }
    command += " " + ShellWord(word);
  }
  return command;
}

std::vector<std::string> words_of_main;

namespace fs = std::filesystem;

bool IsFile(const std::string& name) { return !name.empty() && name != "-"; }

void NoteInputs(const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    if (IsFile(input)) NoteInput(input);
  }
}

// Where a file that is claimed will be, or a new folder.
fs::path PlaceOf(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

struct PlannedOutputs {
  std::map<fs::path, std::string> places;  // of files and new folders, with the names that were given
  std::set<std::string> replaced;          // the names of those that were there, not empty
  // To the end of the command: where it makes its folder is where this looked.
  std::vector<std::shared_ptr<const OpenFolder>> looked_at;
} planned_outputs;

// Inputs that may be pipes, beside those of --tasks and --calibrate.
constexpr const char* kPipes[] = {"--input", "--text", "--data", "--spans", "--templates", "--axes", "ITEMS"};

// One column less than the terminal has, because a full last column would start a new line.
size_t TerminalColumns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

}  // namespace

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  const bool open = most == std::numeric_limits<int64_t>::max();
  const std::string range = open ? Formatted("of {} or more", least) : Formatted("from {} to {}", least, most);
  return {[least, most, range](const std::string& text) {
            const std::optional<int64_t> number = ParseNumber<int64_t>(text);
            return number && least <= *number && *number <= most
                       ? std::string()
                       : Formatted("got '{}', expected a whole number {}", text, range);
          },
          ""};
}

CLI::Validator OneOf(std::string words) {
  if (words.ends_with(",...")) words.erase(words.size() - 4);
  return {[words = CLI::detail::split(words, '|')](const std::string& text) {
            if (std::ranges::contains(words, text)) return std::string();
            return Formatted("got '{}', expected {}", text, Listed(words, ", ", {}, " or "));
          },
          ""};
}

void RequireEffect(const CLI::App& command, bool counts, std::initializer_list<const char*> options,
                   const std::string& without) {
  for (const char* option : options) {
    if (!counts && command.count(option) > 0)
      throw CLI::ValidationError(option, Formatted("has no effect without {}; try leaving out {}", without, option));
  }
}

void Group(CLI::App& command, const char* name) { command.option_defaults()->group(name); }

CLI::Option* AddStatistics(CLI::App& command, std::string& file) {
  return Add(command, "--stats FILE", file, "statistics of MODEL (tare stats --out), for rules with +static");
}

void AddJson(CLI::App& command, std::string& target) {
  Add(command, "--json FILE", target, "write the results as JSON; -: to standard output");
}

void AddQuiet(CLI::App& command) {
  quiet = false;
  command.add_flag("--quiet", quiet, "no progress lines; errors and warnings are still printed")->group(kCommon);
}

void AddFresh(CLI::App& command, bool& fresh, const std::string& where) {
  command.add_flag("--fresh", fresh, Formatted("start over, instead of continuing what is in {}", where));
}

void AddHashAgain(CLI::App& command) {
  const auto forget = [] { RememberHashesIn({}); };
  command.add_flag_callback("--hash-again", forget, "hash weights again, also of files that have not changed")
      ->group(kCommon);
}

void MachineOptions::AddThreadsTo(CLI::App& command) {
  Add(command, "--threads N", threads, "0: all processors; results do not depend on it")
      ->check(WholeNumber(0, 4096))
      ->capture_default_str()
      ->group(kCommon);
}

void MachineOptions::AddTo(CLI::App& command, AddCommand* also) {
  AddThreadsTo(command);
  Add(command, "--math f32|bf16", math, "type of the factors in matrix products")->group(kCommon);
  if (also != nullptr) also(command);
  AddQuiet(command);
}

Math MachineOptions::Apply() const {
  SetThreads(threads);
  return math == "bf16" ? Math::kBf16 : Math::kF32;
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void KeepCommand(int argc, char** argv) { words_of_main.assign(argv, argv + argc); }

std::map<std::string, std::string> AskedBy(const CLI::App& command) {
  std::map<std::string, std::string> asked;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && !std::ranges::contains(kWithValue, name) && !std::ranges::contains(kFlags, name))
      asked[name] = Listed(option->results(), " ");
  }
  return asked;
}

Json WithCommand(const Json& json) {
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& one : json) list.push_back(WithCommand(one));
    return list;
  }
  if (!json.is_object() || !json.contains("schema") || json.contains("command")) return json;
  Json with{{"schema", json["schema"]}, {"command", CommandLine(words_of_main)}};
  with.update(json);
  return with;
}

void WriteJson(const std::string& target, const Json& json) {
  if (target.empty()) return;
  const std::string text = JsonText(WithCommand(json), 2) + "\n";
  if (target == "-") {
    PutText(text);
  } else {
    WriteFileAtomically(target, text);
  }
}

void CheckValues(CLI::App& app) {
  bool writes = false;
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("FLOAT") || type.starts_with("INT") || type.starts_with("UINT"))
      option->check([](const std::string& text) { return text.empty() ? "got '', expected a number" : std::string(); });
    if (option->check_lname("records") || option->check_lname("csv"))  // would make a file of this name
      option->check([name = option->get_name()](const std::string& text) {
        return text != "-" ? std::string()
                           : "got -, expected a file; only --json - is standard output; try " + name + " ./-";
      });
    if (option->check_lname("out"))
      option->check([](const std::string& text) { return text.empty() ? "got '', expected a name" : std::string(); });
    if (std::ranges::any_of(kPipes, [&](const char* name) { return option->check_name(name); }))
      option->transform(FileOf);
    if (option->check_lname("json"))
      option->transform([](const std::string& text) { return text == "/dev/stdout" ? "-" : text; })
          ->each([](const std::string& target) {
            if (!PrintsTables(target)) SilenceOneDnn();
          });
    writes = writes || option->check_lname("out") || option->check_lname("json");
  }
  force = false;
  if (writes) app.add_flag("--force", force, "replace files that the command did not write")->group(kCommon);
  for (CLI::App* sub : app.get_subcommands({})) CheckValues(*sub);
}

void ForgetOutputs() { planned_outputs = {}; }

fs::path WithoutSlash(const fs::path& folder) {
  return folder.has_filename() || !folder.has_relative_path() ? folder : folder.parent_path();
}

std::string JsonWith(const std::string& schema) { return "\"schema\": \"" + schema; }
std::string Hdf5With(const std::string& schema) { return "\x89HDF*" + schema; }

bool Begins(const fs::path& path, std::string_view beginning) {
  constexpr size_t kLooksAt = 4096;
  std::string text = Beginning(path, kLooksAt);
  text.erase(0, text.find_first_not_of("[{ \n"));
  const size_t gap = beginning.find_first_of("*?");
  const bool begins = text.starts_with(beginning.substr(0, gap));
  if (!begins || gap == beginning.npos) return begins;
  const size_t at = text.find(beginning.substr(gap + 1), gap);
  return at != text.npos && (beginning[gap] == '*' || text.find_first_of(" \n", gap) > at);
}

std::string Made(const std::string& output) {
  return planned_outputs.replaced.contains(output) ? output + " (replaced)" : output;
}

std::vector<Output> OutputsIn(const std::vector<std::string>& inputs, const fs::path& folder,
                              const std::vector<std::string>& names) {
  NoteInputs(inputs);
  std::vector<Output> outputs;
  if (OpenFolder::Of(folder) != nullptr) {  // follows a link; in a folder that is held, looks at the entry there
    for (const std::string& name : names) outputs.push_back({folder / name});
    return outputs;
  }
  std::error_code error;
  const fs::path path = WithoutSlash(folder);
  if (fs::exists(fs::symlink_status(path, error)))
    Fail("{}: cannot write: a file, device or broken link has that name, expected a folder; try another name",
         path.string());
  const AtomicFile could_be_made(path);
  planned_outputs.looked_at.push_back(OpenFolder::Of(FolderOf(path)));
  planned_outputs.places.emplace(PlaceOf(path), folder.string());
  return {};
}

std::vector<Output> NewFilesIn(const std::vector<std::string>& inputs, const fs::path& folder,
                               const std::vector<std::string>& names) {
  std::vector<Output> outputs = OutputsIn(inputs, folder, names);
  for (const Output& output : outputs) {
    std::error_code error;
    if (fs::exists(output.path, error))
      Fail("{}: exists already and would be overwritten; try another --out", output.path);
  }
  return outputs;
}

std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs, const std::vector<Output>& outputs) {
  NoteInputs(inputs);
  std::vector<AtomicFile> claims;
  for (const auto& [output, beginning] : outputs) {
    if (!IsFile(output)) continue;
    const fs::path place = PlaceOf(claims.emplace_back(output).final_path());
    const auto [other, is_new] = planned_outputs.places.emplace(place, output);
    if (!is_new)
      Fail("{}: two outputs of one command have this place (the other: {}); try another name", output, other->second);
    std::error_code error;
    const uintmax_t bytes = fs::file_size(place, error);
    if (error || bytes == 0) continue;
    if (!force && !beginning.empty() && !Begins(place, beginning))
      Fail("{}: got a file that this command did not write, expected none or its own; try another name, or --force",
           output);
    planned_outputs.replaced.insert(output);
  }
  return claims;
}

void ShowContinued(const std::string& text) {
  if (quiet) return;
  if (isatty(STDERR_FILENO) == 1) std::fputs("\r\033[K", stderr);  // over a progress line
  PutError(Formatted("tare: {}\n", text));
}

ProgressLine::ProgressLine(const std::string& what)
    : terminal_(isatty(STDERR_FILENO) == 1), last_(Seconds()), clock_(what, last_) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Begin(const std::string& what, int64_t runs_after) {
  clock_.Begin(what, runs_after, Seconds());
  const std::string start = clock_.Start();
  if (terminal_ && !start.empty() && !quiet) Write(start.substr(0, TerminalColumns()));
}

Progress ProgressLine::Callback() {
  return [this](int64_t done, int64_t total, const char* unit) { Show(done, total, unit); };
}

void ProgressLine::Show(int64_t done, int64_t total, const char* unit) {
  const double now = Seconds();
  const std::string line = clock_.Line(done, total, unit, now, terminal_ ? TerminalColumns() : 200);
  const bool due = quiet ? false : terminal_ ? !shown_ || now - last_ >= 0.1 || done == total : now - last_ >= 60;
  if (!due) return;
  last_ = now;
  Write(line);
}

void ProgressLine::Write(const std::string& line) {
  shown_ = terminal_;
  if (terminal_) std::fputs("\r\033[K", stderr);
  PutError(terminal_ ? line : line + "\n");
  std::fflush(stderr);
}

}  // namespace tare
