// SPDX-License-Identifier: Apache-2.0
// One worker of the campaign: its own folder, its own seed, one attack after another, and the results.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/attack/ground.h"
#include "tests/attack/waiting_program.h"

namespace tare::attack {

struct Program {
  std::string path;
  bool sanitized = false;
  std::shared_ptr<WaitingProgram> waiting = {};
  std::string says = "tare: ";  // in each of its messages
};

struct Setting {
  std::vector<Program> programs;           // the first is attacked most
  std::filesystem::path waiting_library;   // waiting_main.cc
  std::filesystem::path source;            // the tree
  Words python, sanitized_python;          // words for env: PYTHONPATH=... python3; empty: no module
  std::filesystem::path ground;            // MakeGround's
  std::filesystem::path work, found;       // of this worker; what was found goes to found/KIND-N
  std::filesystem::path small, read_only;  // folders of a full and of a read-only file system; empty: none
  uint64_t seed = 0;
};

inline constexpr char kStranger[] = "somebody else's";  // what files hold that no command may change

// Whether the command names the file, or the folder that it is in, but as an output.
bool Reads(const Words& words, const std::string& file);

struct Count {
  uint64_t runs = 0, done = 0, refused = 0, usage = 0, struck = 0;
};

class Campaign {
 public:
  explicit Campaign(const Setting& setting);

  // Every reader takes its file as it is: damage in a file that is refused anyway would show nothing.
  void ReadWholeFiles();
  void Round();

  const std::map<std::string, Count>& counts() const { return counts_; }
  uint64_t findings() const { return findings_; }

 private:
  // A run with these first words after the program, counted and checked; context is reported with a finding.
  struct Attempt {
    std::string kind;
    Words words;
    const Program* program;
    Limits limits = {};
    Strike strike = {};
  };

  void DamagedInput();
  void CommandLine();
  void Limited();
  void StruckAndResumed();
  void TwoAtOnce();
  void MarkedResult();
  void AimedAtInput();
  void MovedFolder();
  void GrownTokenizer();
  void PythonCalls();
  void ClusterScripts();
  void SpecialFile();
  void ChangedWhileRead();
  void OddEnvironment();
  void BrokenStreams();

  const Program& SomeProgram(size_t one_sanitized_in);
  Words Line(const Attempt& attempt) const;
  End Run(const Attempt& attempt);
  bool EndsBeforeMain(const Attempt& attempt);
  void Judge(const Attempt& attempt, const End& end);
  void Found(const Attempt& attempt, const End& end, const std::string& what);
  const End& Whole(const Words& words, const std::string& place);  // of the undamaged file
  const Contents& Reference(const Job& job);                       // what is in out/ after it
  void ClearOut();
  void Put(const Subject& subject);
  void PutBack(const Subject& subject);
  void CheckBroken(const Attempt& attempt, const End& end);
  void PutStrangers(const Contents& reference);
  void CheckStrangers(const Attempt& attempt, const End& end, const Contents& reference);
  void CheckInputs(const Attempt& attempt, const End& end);
  void CheckOut(const Attempt& attempt, const End& end, const Job& job, bool finished);

  Setting setting_;
  std::filesystem::path folder_;
  Contents ground_;
  std::map<std::string, Mark> marks_;
  Random random_;
  Words dictionary_;
  std::string charsmap_;  // of a valid tokenizer
  std::map<std::string, Count> counts_;
  std::map<std::string, End> whole_;
  std::map<std::string, Contents> references_;
  std::map<std::string, std::chrono::microseconds> times_;
  std::set<std::string> said_;
  uint64_t findings_ = 0;
};

}  // namespace tare::attack
