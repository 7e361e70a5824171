// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/campaign.h"

#include <sys/stat.h>

#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/attack/command_lines.h"
#include "tests/damage/damage_hdf5.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::attack {

bool Reads(const Words& words, const std::string& file) {
  static const std::set<std::string> outputs{"--json", "--out", "--csv", "--records"};
  const std::string top = file.substr(0, file.find('/')), ends = "/=,()";
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && outputs.contains(words[i - 1])) continue;
    for (size_t at = 0; (at = words[i].find(top, at)) != std::string::npos; ++at) {
      const size_t end = at + top.size();
      const bool begins = at == 0 || ends.contains(words[i][at - 1]);
      if (begins && (end == words[i].size() || ends.contains(words[i][end]))) return true;
    }
  }
  return false;
}

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A hostile file may ask for any memory; what it cannot have is refused, here at the same size on every machine.
constexpr rlim_t kAddressBytes = rlim_t{4} << 30;

bool Contains(const std::string& text, std::string_view part) { return text.contains(part); }

// What a sanitizer says of memory that cannot be had: where it is not watching, an exception that is caught.
bool IsOutOfMemory(const std::string& err) {
  return Contains(err, "allocation-size-too-big") || Contains(err, "out-of-memory") ||
         Contains(err, "exceeds maximum supported size") || Contains(err, "failed to allocate");
}

// The message without what differs from file to file: two findings of one cause are said once.
std::string Gist(const std::string& err) {
  std::string gist;
  for (const char c : err.substr(0, 400)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) gist += c;
  }
  return gist;
}

bool IsTemporary(const std::string& name) { return Contains(name, ".tmp"); }
bool IsPartOfJob(const std::string& name) { return name.ends_with(".part") || Contains(name, ".parts"); }

// What a command prints without the hashes of files that it read.
std::string Figures(const std::string& out) {
  constexpr size_t kHashDigits = 64;
  std::string figures;
  for (size_t at = 0; at < out.size();) {
    const size_t end = std::min(out.find_first_not_of("0123456789abcdef", at), out.size());
    if (end - at != kHashDigits) figures += out.substr(at, end - at);
    if (end < out.size()) figures += out[end];
    at = end + 1;
  }
  return figures;
}

// Whole lines of the reference, in order: what a table that grows line by line may hold after a kill.
bool IsBeginning(const std::string& text, const std::string& reference) {
  return reference.starts_with(text.substr(0, text.rfind('\n') + 1));
}

}  // namespace

Campaign::Campaign(const Setting& setting)
    : setting_(setting), folder_(setting.work / "ground"), random_(setting.seed) {
  fs::create_directories(setting_.work);
  for (Program& program : setting_.programs)
    program.waiting = std::make_shared<WaitingProgram>(program.path, setting_.waiting_library);
  fs::copy(setting_.ground, folder_, fs::copy_options::recursive);
  ground_ = FilesIn(folder_);
  marks_ = MarksOf(folder_);
  dictionary_ = Dictionary(setting_.programs[0].path, folder_);
}

void Campaign::Round() {
  const size_t what = random_.Below(1000);
  if (what < 717) return DamagedInput();
  if (what < 732) return SpecialFile();
  if (what < 747) return ChangedWhileRead();
  if (what < 757) return OddEnvironment();
  if (what < 767) return BrokenStreams();
  if (what < 832) return GrownTokenizer();
  if (what < 836) return PythonCalls();
  if (what < 840) return ClusterScripts();
  if (what < 910) return CommandLine();
  if (what < 930) return Limited();
  if (what < 953) return StruckAndResumed();
  if (what < 960) return TwoAtOnce();
  if (what < 975) return MarkedResult();
  if (what < 992) return AimedAtInput();
  MovedFolder();
}

const Program& Campaign::SomeProgram(size_t one_sanitized_in) {
  return setting_.programs.size() > 1 && random_.OneIn(one_sanitized_in) ? setting_.programs[1] : setting_.programs[0];
}

Words Campaign::Line(const Attempt& attempt) const {
  Words line{attempt.program->path};
  line.insert(line.end(), attempt.words.begin(), attempt.words.end());
  return line;
}

End Campaign::Run(const Attempt& attempt) {
  Limits limits = attempt.limits;
  if (attempt.program->sanitized) {
    limits.address_bytes = RLIM_INFINITY;
  } else if (limits.address_bytes == RLIM_INFINITY) {
    limits.address_bytes = kAddressBytes;
  }
  const milliseconds patience(attempt.program->sanitized ? 120'000 : 20'000);
  // Limits are met from the loader on, as a user meets them.
  const bool unlimited = attempt.limits == Limits{};
  const End end = Process(folder_, Line(attempt), limits, "run", unlimited ? attempt.program->waiting.get() : nullptr)
                      .Wait(patience, attempt.strike);
  Judge(attempt, end);
  return end;
}

// Under a limit in which libraries cannot be loaded, or make what they hold from the start: they end with a signal or a
// message of their own, whatever the command is.
bool Campaign::EndsBeforeMain(const Attempt& attempt) {
  const End end =
      Process(folder_, {attempt.program->path, "--version"}, attempt.limits, "version").Wait(milliseconds(20'000));
  return !end.Done();
}

void Campaign::Judge(const Attempt& attempt, const End& end) {
  Count& count = counts_[attempt.kind + (attempt.program->sanitized ? ", sanitized" : "")];
  ++count.runs;
  count.done += end.exit_code == 0;
  count.refused += end.exit_code == 1;
  count.usage += end.exit_code == 2;
  const bool struck = attempt.strike.signal != 0 && end.signal == attempt.strike.signal;
  count.struck += struck;
  if (end.hung) return Found(attempt, end, "did not end in time");
  if (struck || IsOutOfMemory(end.err)) return;
  const bool silent = end.exit_code == 1 && !Contains(end.err, attempt.program->says);
  const bool badly = end.signal != 0 || end.exit_code > 2 || silent;
  const bool loads_less =
      attempt.limits.address_bytes != RLIM_INFINITY || attempt.limits.open_files != Limits{}.open_files;
  if (badly && loads_less && EndsBeforeMain(attempt)) return;
  if (end.signal != 0) return Found(attempt, end, std::string("ended by ") + strsignal(end.signal));
  if (Contains(end.err, "Sanitizer") || Contains(end.err, "runtime error:"))
    return Found(attempt, end, "a sanitizer's report");
  if (end.exit_code > 2) return Found(attempt, end, "exit code " + std::to_string(end.exit_code));
  if (Contains(end.err, "tare: internal error: ")) return Found(attempt, end, "a message that nobody wrote");
  if (attempt.program->says == "tare: " && (end.out + end.err).find_first_of("\x1b\x07") != std::string::npos)
    return Found(attempt, end, "a control character for the terminal");
  if (silent && attempt.limits.file_bytes == RLIM_INFINITY) return Found(attempt, end, "failed without a message");
}

void Campaign::Found(const Attempt& attempt, const End& end, const std::string& what) {
  ++findings_;
  if (!said_.insert(attempt.kind + what + attempt.words[0] + Gist(end.err)).second) return;
  const fs::path kept =
      setting_.found / (attempt.kind + "-" + std::to_string(setting_.seed) + "-" + std::to_string(said_.size()));
  fs::create_directories(kept.parent_path());
  fs::copy(folder_, kept, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::string line;
  for (const std::string& word : Line(attempt)) line += "'" + word + "' ";
  std::string text = what + "\n" + line + "\nsignal " + std::to_string(attempt.strike.signal) + " after " +
                     std::to_string(attempt.strike.after.count()) + " us; FSIZE " +
                     std::to_string(attempt.limits.file_bytes) + ", AS " +
                     std::to_string(attempt.limits.address_bytes) + ", NOFILE " +
                     std::to_string(attempt.limits.open_files) + "\n" + end.err + "\n";
  PutFile(kept / "FOUND", text);
  std::printf("found: %s: %s (%s)\n  %s\n  %s\n", attempt.kind.c_str(), what.c_str(), kept.c_str(), line.c_str(),
              end.err.substr(0, 300).c_str());
  std::fflush(stdout);
}

void Campaign::ClearOut() {
  fs::remove_all(folder_ / "out");
  fs::create_directory(folder_ / "out");
}

// Every file of the ground is what it was; what came besides goes away.
void Campaign::CheckInputs(const Attempt& attempt, const End& end) {
  ClearOut();
  const std::map<std::string, Mark> now = MarksOf(folder_);
  if (now == marks_) return;
  for (const auto& [name, mark] : marks_) {
    const auto found = now.find(name);
    const bool changed = found == now.end() || (found->second != mark && GetFile(folder_ / name) != ground_.at(name));
    if (changed && Reads(attempt.words, name)) Found(attempt, end, "changed its input " + name);
  }
  fs::remove_all(folder_);
  fs::copy(setting_.ground, folder_, fs::copy_options::recursive);
  marks_ = MarksOf(folder_);
}

const End& Campaign::Whole(const Words& words, const std::string& place) {
  std::string key = place;
  for (const std::string& word : words) key += ' ' + word;
  const auto known = whole_.find(key);
  if (known != whole_.end()) return known->second;
  const Attempt attempt{"whole", words, &setting_.programs[0]};
  const End end = Run(attempt);
  if (!end.Done()) Found(attempt, end, "refused a whole file");
  return whole_.emplace(key, end).first->second;
}

void Campaign::DamagedInput() {
  const Subject& subject = random_.Of(Subjects());
  const std::string place = subject.place.empty() ? subject.file : subject.place;
  const std::string& whole = ground_.at(subject.file);
  Attempt attempt{"damaged", random_.Of(subject.readers), &SomeProgram(16)};
  fs::create_directories((folder_ / place).parent_path());
  if (subject.ours) {
    PutFile(folder_ / place, whole);
    Whole(attempt.words, place);
    ClearOut();
    fs::create_directories((folder_ / place).parent_path());
  }
  const bool bytes = random_.OneIn(2), forged = !bytes && subject.form == Form::kHdf5 && random_.OneIn(2);
  const std::string damaged = forged ? damage::ForgeHdf5(whole, random_)
                              : bytes
                                  ? damage::DamageBytes(whole, random_)
                                  : damage::DamageStructure(whole, subject.form, setting_.work / "scratch", random_);
  PutFile(folder_ / place, damaged);
  const End end = Run(attempt);
  const bool unchecked = Contains(end.err, "has no checksums") || Contains(end.err, "without a hash");
  const bool holds = subject.ours && (bytes || subject.form == Form::kJson) && end.Done() && !unchecked;
  if (holds && Figures(end.out) != Figures(Whole(attempt.words, place).out))
    Found(attempt, end, "another figure from a damaged file");
  PutFile(folder_ / subject.file, whole);
  marks_[subject.file] = MarksOf(folder_).at(subject.file);
  CheckInputs(attempt, end);
}

void Campaign::CommandLine() {
  Words words = random_.OneIn(2) ? random_.Of(Jobs()).command : random_.Of(random_.Of(Subjects()).readers);
  const Attempt attempt{"command line", DamageWords(words, dictionary_, random_), &SomeProgram(16)};
  CheckInputs(attempt, Run(attempt));
}

const Contents& Campaign::Reference(const Job& job) {
  const std::string key = job.command[0] + job.command.back();
  const auto known = references_.find(key);
  if (known != references_.end()) return known->second;
  ClearOut();
  const Attempt attempt{"whole", job.command, &setting_.programs[0]};
  const End end = Run(attempt);
  if (!end.Done()) Found(attempt, end, "failed where nothing was wrong");
  times_[key] = end.time;
  return references_.emplace(key, FilesIn(folder_ / "out")).first->second;
}

// Every file of out/ is whole or not there; all are, where the job finished.
void Campaign::CheckOut(const Attempt& attempt, const End& end, const Job& job, bool finished) {
  const Contents& reference = Reference(job);
  const Contents out = FilesIn(folder_ / "out");
  for (const auto& [name, text] : out) {
    if (text == kStranger || (!finished && (IsTemporary(name) || IsPartOfJob(name) || text == "old"))) continue;
    const auto expected = reference.find(name);
    if (expected == reference.end()) {
      Found(attempt, end, "left " + name);
    } else if (text != expected->second &&
               (finished || !name.ends_with(".jsonl") || !IsBeginning(text, expected->second))) {
      Found(attempt, end, "left other bytes in " + name);
    }
  }
  for (const auto& [name, text] : reference) {
    if (finished && !out.contains(name)) Found(attempt, end, "did not write " + name);
  }
}

void Campaign::StruckAndResumed() {
  const Job& job = random_.Of(Jobs());
  const Contents reference = Reference(job);
  const int64_t time = times_.at(job.command[0] + job.command.back()).count();
  ClearOut();
  Words command = job.command;
  if (random_.OneIn(3) && reference.size() == 1) {
    PutFile(folder_ / "out" / reference.begin()->first, "old");
    command.push_back("--force");
  }
  static const std::vector<int> signals{SIGKILL, SIGKILL, SIGTERM, SIGINT};
  PutStrangers(reference);
  Attempt attempt{"struck", command, &SomeProgram(16)};
  for (size_t strikes = 1 + random_.Below(2); strikes > 0; --strikes) {
    attempt.strike = {random_.Of(signals),
                      std::chrono::microseconds(random_.Below(static_cast<size_t>(time + time / 4)))};
    const End end = Run(attempt);
    CheckStrangers(attempt, end, reference);
    CheckOut(attempt, end, job, end.Done());
    if (end.Done()) break;
  }
  if (!job.folder.empty()) fs::remove_all(folder_ / job.folder);
  const Attempt again{"resumed", attempt.words, attempt.program};
  const End end = Run(again);
  if (!end.Done()) Found(again, end, "did not finish after it was struck");
  CheckStrangers(again, end, reference);
  CheckOut(again, end, job, end.Done());
  CheckInputs(again, end);
}

void Campaign::Limited() {
  const Job& job = random_.Of(Jobs());
  Reference(job);
  ClearOut();
  Attempt attempt{"limited", job.command, &setting_.programs[0]};
  fs::path elsewhere;
  switch (random_.Below(4)) {
    case 0:
      attempt.limits.file_bytes = random_.Below(random_.OneIn(2) ? 4096 : 400'000);
      break;
    case 1:
      attempt.limits.address_bytes = (rlim_t{30} << 20) + random_.Below(size_t{570} << 20);
      break;
    case 2:
      attempt.limits.open_files = 3 + random_.Below(20);
      break;
    default:
      elsewhere = random_.OneIn(2) ? setting_.small : setting_.read_only;
  }
  if (!elsewhere.empty()) {
    fs::remove(folder_ / "out");
    fs::create_directory_symlink(elsewhere, folder_ / "out");
  }
  const End end = Run(attempt);
  // A file system that is full of other things leaves room for some of the files.
  for (const auto& [name, text] : FilesIn(folder_ / "out")) {
    if (IsTemporary(name)) Found(attempt, end, "left " + name);
  }
  if (elsewhere.empty()) CheckOut(attempt, end, job, end.Done());
  if (!elsewhere.empty()) {
    for (const auto& entry : fs::directory_iterator(elsewhere)) fs::remove_all(entry.path());
    fs::remove(folder_ / "out");
  }
  CheckInputs(attempt, end);
}

void Campaign::TwoAtOnce() {
  const Job& job = random_.Of(Jobs());
  Reference(job);
  ClearOut();
  const Attempt attempt{"two at once", job.command, &setting_.programs[0]};
  Process other(folder_, Line(attempt), {}, "other");
  usleep(static_cast<useconds_t>(random_.Below(30'000)));
  const End first = Run(attempt);
  const End second = other.Wait(milliseconds(20'000));
  Judge(attempt, second);
  if (!first.Done() && !second.Done()) Found(attempt, second, "neither of two finished: " + first.err);
  CheckOut(attempt, second, job, true);
  CheckInputs(attempt, second);
}

}  // namespace tare::attack
