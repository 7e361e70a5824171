// SPDX-License-Identifier: Apache-2.0
// The campaign on what its files do not reach: tokenizers by their grammar, the Python module in a process of its own,
// and the cluster's scripts with names that a shell might take for its own.
#include "quant/file/json.h"
#include "tests/attack/campaign.h"
#include "tests/attack/tokenizers.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::attack {
namespace {

namespace fs = std::filesystem;

// A name, or a part of one.
const Words& HostileNames() {
  static const Words names{"a b",
                           "$(touch broken)",
                           "`touch broken`",
                           "';touch broken;'",
                           "\";touch broken;\"",
                           "-x",
                           "--out",
                           "*",
                           "a\nb",
                           "a\ttouch broken",
                           "&|<>;",
                           "\\",
                           "\xc3\xa9",
                           "\xff",
                           "# x",
                           "%s%n",
                           "~",
                           "{a,b}",
                           "!x",
                           "1,2p"};
  return names;
}

// The first line that has another number of pieces than of ids, or an id below 0; empty if there is none.
std::string WrongLine(const std::string& lines) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const Json line = Json::parse(lines.substr(at, end - at), nullptr, false);
    if (!line.is_object() || line.value("ids", Json()).size() != line.value("pieces", Json()).size())
      return lines.substr(at, end - at);
    for (const Json& id : line.value("ids", Json())) {
      if (id.get<int64_t>() < 0) return lines.substr(at, end - at);
    }
    at = end + 1;
  }
  return "";
}

}  // namespace

void Campaign::GrownTokenizer() {
  if (charsmap_.empty()) {
    const Json json = Json::parse(GetFile(setting_.source / "tests/data/text/tokenizers/unigram-precompiled.json"));
    charsmap_ = json["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>();
  }
  PutFile(folder_ / "out/tokenizer.json", RandomTokenizer(charsmap_, random_).dump());
  std::string texts;
  for (size_t n = 1 + random_.Below(3); n > 0; --n) texts += Json{{"text", RandomText(random_)}}.dump() + "\n";
  PutFile(folder_ / "out/texts.jsonl", texts);
  const Attempt attempt{"tokenizer", {"tokenize", "out/tokenizer.json", "--input", "out/texts.jsonl"}, &SomeProgram(8)};
  const End end = Run(attempt);
  const std::string wrong = end.Done() ? WrongLine(end.out) : "";
  if (!wrong.empty()) Found(attempt, end, "wrote " + wrong.substr(0, 200));
  CheckInputs(attempt, end);
}

void Campaign::PythonCalls() {
  const bool sanitized = !setting_.sanitized_python.empty() && (setting_.python.empty() || random_.OneIn(4));
  const Words& words = sanitized ? setting_.sanitized_python : setting_.python;
  if (words.empty()) return;
  const Program python{.path = "/usr/bin/env", .sanitized = sanitized, .says = ""};
  Attempt attempt{"python", words, &python};
  const fs::path script = setting_.source / "tests/attack/python_calls.py";
  const std::string seed = std::to_string(random_.Below(1'000'000'000));
  attempt.words.insert(attempt.words.end(), {"-W", "ignore", script.string(), seed, "."});
  CheckInputs(attempt, Run(attempt));
}

// The cells of a sweep whose output, file of cells or model has a hostile name; each line is run as GNU parallel or
// Slurm does.
void Campaign::ClusterScripts() {
  const Program bash{.path = "/bin/bash", .says = ""};
  const fs::path scripts = setting_.source / "tools/cluster";
  const std::string out = "out/" + random_.Of(HostileNames()), cells = "out/" + random_.Of(HostileNames()) + ".txt";
  const std::string model = random_.OneIn(2) ? "m" : "out/" + random_.Of(HostileNames()) + "m";
  if (model != "m") fs::copy(folder_ / "m", folder_ / model);
  const std::string tasks = random_.OneIn(4) ? random_.Of(HostileNames()) : "perplexity=i.h5";
  const Words words{scripts / "cells.sh",
                    setting_.programs[0].path,
                    random_.OneIn(4) ? out.substr(4) : out,
                    model,
                    "--bits",
                    "16,8",
                    "--tasks",
                    tasks};
  const Attempt list{"cluster", words, &bash};
  const End listed = Run(list);
  if (listed.Done()) {
    PutFile(folder_ / cells, listed.out);
    // In the folder of the file, where its name may look like an option.
    static const Words numbers{"1", "2", "3", "0", "", "1e touch broken", "$(touch broken)", "99999999999999999999"};
    const std::string run = "cd \"$1\" && f=$2 && shift 2 && SLURM_ARRAY_TASK_ID=$1 \"$BASH\" \"$2\" \"$f\"";
    const Attempt line{"cluster",
                       {"-c", run, "-", random_.OneIn(2) ? "." : "out", random_.OneIn(2) ? cells : cells.substr(4),
                        random_.Of(numbers), scripts / "slurm.sh"},
                       &bash};
    CheckBroken(line, Run(line));
    const Attempt all{
        "cluster", {"-c", "\"$BASH\" <\"$1\" && sed -n 's/^# //p' <\"$1\" | \"$BASH\"", "-", cells}, &bash};
    const End done = Run(all);
    CheckBroken(all, done);
    if (!done.Done() && tasks.starts_with("perplexity"))
      Found(all, done, "did not run the cells of a sweep that was listed");
  }
  CheckBroken(list, listed);
  CheckInputs(list, listed);
}

// Whether a name was run as a command.
void Campaign::CheckBroken(const Attempt& attempt, const End& end) {
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.path().filename() == "broken") return Found(attempt, end, "ran a name as a command");
  }
}

}  // namespace tare::attack
