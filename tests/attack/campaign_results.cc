// SPDX-License-Identifier: Apache-2.0
// The campaign on results and on the folders they are in: markup in the fields of what a report draws, outputs that aim
// at inputs, folders that are moved while a command writes into them, files of others beside its own.
#include <algorithm>

#include "quant/file/json.h"
#include "tests/attack/campaign.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/html_elements.h"

namespace tare::attack {
namespace {

namespace fs = std::filesystem;

constexpr char kMarkup[] = "\"'></title></style></script></svg></td><mark onmark=\"1\">&lt;mark>";

// Names that the writer of the first output might take for its own.
Words StrangersOf(const Contents& outputs) {
  const std::string first = outputs.begin()->first, name = first.substr(0, first.find('/'));
  return {name + ".tmp", name + ".77-0.tmp", name + ".folder.tmp/config.json", name + ".quantized.tmp"};
}

// Markup in three forms, or a value of another kind or size than any command writes.
Json Marked(size_t form) {
  static const std::vector<Json> forms{
      kMarkup, Json::array({kMarkup}), {{kMarkup, kMarkup}}, nullptr,   -1,       0, 1e308, 1e-320, true, "",
      "x",     Json::array(),          Json::object(),       "\x1b[2J", INT64_MAX};
  return forms[form % forms.size()];
}

// Read by these, besides what Subjects names.
const std::vector<Words>& Readers() {
  static const std::vector<Words> readers{
      {"sweep", "m", "--bits", "16,4", "--tasks", "perplexity=i.h5", "--merge", "sw", "--out", "out/x"},
      {"attribute", "m", "--plan", "q=int4/token,k=int4/token", "--tasks", "perplexity=i.h5", "--merge", "at", "--out",
       "out/x"},
      {"compare", "m", "g", "--bits", "4", "--tasks", "perplexity=i.safetensors", "--attribute", "none", "--also",
       "cmp", "--out", "out/x"},
      {"report", "sw", "at", "--out", "out/r.html"},
      {"convert", "x.folder.tmp", "--to", "diffllama", "--out", "x"},
      {"eval", "m", "--plan", "weights=grid(grid.txt)/channel", "--tasks", "perplexity=i.h5"}};
  return readers;
}

}  // namespace

void Campaign::MarkedResult() {
  static const Words results{
      "sw/table.json", "at/attribution.json", "se/search.json", "cmp/compare.json", "o.json", "e.json", "b.json",
      "ma.json"};
  const std::string& result = random_.Of(results);
  Json json = Json::parse(ground_.at(result));
  for (size_t marks = 1 + random_.Below(2); marks > 0; --marks) {
    const Json fields = json.flatten();
    const auto field = std::next(fields.begin(), static_cast<ptrdiff_t>(random_.Below(fields.size())));
    json[Json::json_pointer(field.key())] = Marked(random_.OneIn(2) ? random_.Below(3) : random_.Below(15));
  }
  PutFile(folder_ / "out" / "marked.json", json.dump());
  const Attempt attempt{"report", {"report", "out/marked.json", "--out", "out/r.html"}, &SomeProgram(16)};
  const End end = Run(attempt);
  if (end.Done()) {
    for (const std::string& element : ElementsOf(GetFile(folder_ / "out" / "r.html"))) {
      if (element.contains("mark")) Found(attempt, end, "a field made the element " + element);
    }
  }
  CheckInputs(attempt, end);
}

// One of a command's inputs is one of its outputs too, under some spelling.
void Campaign::AimedAtInput() {
  static const Words outputs{"--json", "--out", "--csv", "--records", "--out-model"};
  Words words = random_.OneIn(2) ? random_.Of(Readers()) : random_.Of(random_.Of(Subjects()).readers);
  Words inputs;
  for (const auto& [name, text] : ground_) {
    if (Reads(words, name)) inputs.push_back(name);
  }
  if (inputs.empty()) return;
  std::string target = random_.Of(inputs);
  const std::string folder = target.substr(0, target.find('/'));
  ClearOut();
  fs::create_symlink("../" + target, folder_ / "out/link");
  fs::create_hard_link(folder_ / target, folder_ / "out/other");
  const std::string spelled[] = {target,       "./" + target, "m/../" + target, folder,
                                 folder + "/", "out/link",    "out/other"};
  target = spelled[random_.Below(std::size(spelled))];
  const std::string& option = random_.Of(outputs);
  const auto given = std::ranges::find(words, option);
  if (given != words.end() && given + 1 != words.end()) {
    given[1] = target;
  } else {
    words.insert(words.end(), {option, target});
  }
  if (random_.OneIn(2)) words.push_back("--force");
  const Attempt attempt{"aimed", words, &SomeProgram(16)};
  CheckInputs(attempt, Run(attempt));
}

// As soon as it begins to write, out/ is moved away, and a link to a folder of somebody else's takes its place.
void Campaign::MovedFolder() {
  const Job& job = random_.Of(Jobs());
  const Contents reference = Reference(job);
  const int64_t time = times_.at(job.command[0] + job.command.back()).count();
  ClearOut();
  for (const auto& [name, text] : reference) {
    fs::create_directories((folder_ / "theirs" / name).parent_path());
    PutFile(folder_ / "theirs" / name, kStranger);
  }
  const Contents theirs = FilesIn(folder_ / "theirs");
  const Attempt attempt{"moved", job.command, &setting_.programs[0]};
  Process process(folder_, Line(attempt), {}, "moved");
  const auto begun = [&] { return !fs::is_empty(folder_ / "out"); };
  for (int64_t waited = 0; waited < 4 * time && !begun(); waited += 100) usleep(100);
  const bool moved = begun();
  if (moved) {
    usleep(static_cast<useconds_t>(random_.Below(static_cast<size_t>(time))));
    fs::rename(folder_ / "out", folder_ / "gone");
    fs::create_directory_symlink("theirs", folder_ / "out");
  }
  const End end = process.Wait(std::chrono::milliseconds(20'000));
  Judge(attempt, end);
  if (FilesIn(folder_ / "theirs") != theirs) Found(attempt, end, "wrote into a folder that took the place of its own");
  fs::remove_all(folder_ / "theirs");
  fs::remove_all(folder_ / "gone");
  fs::remove_all(folder_ / "out");
  CheckInputs(attempt, end);
}

void Campaign::PutStrangers(const Contents& reference) {
  for (const std::string& name : StrangersOf(reference)) {
    fs::create_directories((folder_ / "out" / name).parent_path());
    PutFile(folder_ / "out" / name, kStranger);
  }
}

// They are as they were, and go.
void Campaign::CheckStrangers(const Attempt& attempt, const End& end, const Contents& reference) {
  const Contents out = FilesIn(folder_ / "out");
  for (const std::string& name : StrangersOf(reference)) {
    const auto found = out.find(name);
    if (found == out.end() || found->second != kStranger) Found(attempt, end, "removed or changed " + name);
  }
}

}  // namespace tare::attack
