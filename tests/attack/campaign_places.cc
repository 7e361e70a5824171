// SPDX-License-Identifier: Apache-2.0
// The campaign on what surrounds a command: inputs that are no regular files, or that change while they are read,
// variables of libraries with garbage in them, standard streams that are closed or full.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/attack/campaign.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::attack {
namespace {

namespace fs = std::filesystem;

std::string PlaceOf(const Subject& subject) { return subject.place.empty() ? subject.file : subject.place; }

// In the place of an input.
void PutSpecial(const fs::path& path, Random& random) {
  fs::remove(path);
  switch (random.Below(6)) {
    case 0:
      mkfifo(path.c_str(), 0600);
      break;
    case 1:
      fs::create_directory(path);
      break;
    case 2:
      mknod(path.c_str(), S_IFSOCK | 0600, 0);
      break;
    case 3:
      fs::create_symlink(random.OneIn(2) ? "/dev/zero" : "/dev/null", path);
      break;
    case 4:
      fs::create_symlink(path.filename(), path);
      break;
    default:
      PutFile(path, "");
  }
}

// A part of a result may be gone already: the command that goes on from it removes it at its end.
void Change(const fs::path& path, const std::string& whole, Random& random) {
  const size_t some = random.Below(whole.size());
  std::error_code gone;
  switch (random.Below(5)) {
    case 0:
      fs::resize_file(path, some, gone);
      break;
    case 1:
      fs::resize_file(path, whole.size() + some, gone);
      break;
    case 2:
      PutFile(path.string() + ".other", whole.substr(0, some));
      fs::rename(path.string() + ".other", path);
      break;
    case 3:
      PutFile(path.string() + ".other", whole + whole);
      fs::rename(path.string() + ".other", path);
      break;
    default:
      fs::remove(path);
  }
}

// Numbers of threads and levels, places, sizes, types, files and folders; a word and a sequence of a terminal.
const Words& Variables() {
  static const Words names{"OMP_NUM_THREADS",
                           "OMP_THREAD_LIMIT",
                           "OMP_STACKSIZE",
                           "OMP_PLACES",
                           "OMP_PROC_BIND",
                           "OMP_WAIT_POLICY",
                           "OMP_SCHEDULE",
                           "GOMP_CPU_AFFINITY",
                           "GOMP_SPINCOUNT",
                           "HDF5_DRIVER",
                           "HDF5_PLUGIN_PATH",
                           "HDF5_USE_FILE_LOCKING",
                           "HDF5_VOL_CONNECTOR",
                           "ONEDNN_MAX_CPU_ISA",
                           "ONEDNN_DEFAULT_FPMATH_MODE",
                           "ONEDNN_JIT_DUMP",
                           "ICU_DATA",
                           "OPENSSL_CONF",
                           "LC_ALL",
                           "LANG",
                           "LANGUAGE",
                           "TZ",
                           "TERM",
                           "COLUMNS",
                           "HOME",
                           "XDG_CACHE_HOME",
                           "TMPDIR",
                           "LOCPATH",
                           "NLSPATH",
                           "GCONV_PATH"};
  return names;
}

const Words& Garbage() {
  static const Words values{"",         "-3",      "0", "1",    "99999999999999999999", "x",   "\x1b[31m",
                            "/nowhere", "/",       ".", "core", "tr_TR.UTF-8",          "ANY", "1B",
                            "{0}",      "\xff\xfe"};
  return values;
}

}  // namespace

void Campaign::SpecialFile() {
  const Subject& subject = random_.Of(Subjects());
  const fs::path path = folder_ / PlaceOf(subject);
  const Attempt attempt{"special", random_.Of(subject.readers), &SomeProgram(16)};
  fs::create_directories(path.parent_path());
  PutSpecial(path, random_);
  const End end = Run(attempt);
  PutBack(subject);
  CheckInputs(attempt, end);
}

void Campaign::ChangedWhileRead() {
  const Subject& subject = random_.Of(Subjects());
  const std::string place = PlaceOf(subject), &whole = ground_.at(subject.file);
  const Attempt attempt{"changed", random_.Of(subject.readers), &SomeProgram(16)};
  Put(subject);
  const End expected = Whole(attempt.words, place);
  Put(subject);
  Process process(folder_, Line(attempt), {}, "changed");
  usleep(static_cast<useconds_t>(random_.Below(static_cast<size_t>(expected.time.count()))));
  Change(folder_ / place, whole, random_);
  const End end = process.Wait(std::chrono::milliseconds(attempt.program->sanitized ? 120'000 : 20'000));
  Judge(attempt, end);
  PutBack(subject);
  CheckInputs(attempt, end);
}

void Campaign::ReadWholeFiles() {
  for (const Subject& subject : Subjects()) {
    for (const Words& words : subject.readers) {
      Put(subject);
      Whole(words, PlaceOf(subject));
    }
    PutBack(subject);
  }
  ClearOut();
}

// Where its readers look for it, with nothing else in out/.
void Campaign::Put(const Subject& subject) {
  ClearOut();
  const fs::path path = folder_ / PlaceOf(subject);
  fs::create_directories(path.parent_path());
  PutFile(path, ground_.at(subject.file));
}

// As it was, whatever has its place.
void Campaign::PutBack(const Subject& subject) {
  fs::remove_all(folder_ / PlaceOf(subject));
  PutFile(folder_ / subject.file, ground_.at(subject.file));
  marks_[subject.file] = MarksOf(folder_).at(subject.file);
}

// The outputs are the same bytes.
void Campaign::OddEnvironment() {
  const Job& job = random_.Of(Jobs());
  Reference(job);
  ClearOut();
  const Program env{.path = "/usr/bin/env"};
  Attempt attempt{"environment", {}, &env};
  for (size_t n = 1 + random_.Below(3); n > 0; --n)
    attempt.words.push_back(random_.Of(Variables()) + "=" + random_.Of(Garbage()));
  attempt.words.push_back(setting_.programs[0].path);
  attempt.words.insert(attempt.words.end(), job.command.begin(), job.command.end());
  const End end = Run(attempt);
  if (!end.Done()) Found(attempt, end, "failed for a variable of its environment");
  CheckOut(attempt, end, job, end.Done());
  CheckInputs(attempt, end);
}

// sh closes or fills what Enter opened.
void Campaign::BrokenStreams() {
  const Job& job = random_.Of(Jobs());
  Reference(job);
  ClearOut();
  static const Words redirections{"<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "</dev/full"};
  const Program shell{.path = "/bin/sh", .says = ""};
  Attempt attempt{"streams", {"-c", "exec \"$0\" \"$@\" " + random_.Of(redirections)}, &shell};
  attempt.words.push_back(setting_.programs[0].path);
  attempt.words.insert(attempt.words.end(), job.command.begin(), job.command.end());
  const End end = Run(attempt);
  CheckOut(attempt, end, job, end.Done());
  CheckInputs(attempt, end);
}

}  // namespace tare::attack
