// SPDX-License-Identifier: Apache-2.0
// usage: attack [--program TARE] [--sanitized TARE] [--python WORD]... [--sanitized-python WORD]...
//               --source TREE [--seconds S] [--seed N] [--workers W] [--work DIR] [--found DIR] [--small DIR]
//               [--read-only DIR]
//
// Attacks the program, as released or sanitized or both, for this many seconds: damaged files of every kind through the
// commands that read them, command lines, limits, signals and kills at random moments, two processes on one output. And
// the Python module, where --python gives env the words that run a script with it (PYTHONPATH=... python3).
// Prints how many of each and what was found: a crash, a hang, a different figure from a damaged file of ours, a lost
// input or output. Exits with 1 if there was any.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "quant/file/json.h"
#include "tests/attack/campaign.h"
#include "tests/quant/file/temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using tare::attack::Campaign;
using tare::attack::Count;
using tare::attack::Setting;

struct Options {
  std::string program, sanitized, source, work, found, small, read_only;
  double seconds = 30;
  tare::attack::Words python, sanitized_python;
  uint64_t seed = 1;
  int workers = 1;
};

// Attacks until the time is over, and leaves the counts in the worker's folder.
int Work(const Options& options, const fs::path& work, int worker) {
  Setting setting{.waiting_library = TARE_WAITING_LIBRARY,
                  .source = options.source,
                  .python = options.python,
                  .sanitized_python = options.sanitized_python,
                  .ground = work / "ground",
                  .work = work / ("worker-" + std::to_string(worker)),
                  .found = options.found,
                  .seed = options.seed * 1000 + static_cast<uint64_t>(worker)};
  if (!options.program.empty()) setting.programs.push_back({options.program, false});
  if (!options.sanitized.empty()) setting.programs.push_back({options.sanitized, true});
  if (!options.small.empty()) setting.small = fs::path(options.small) / std::to_string(worker);
  if (!setting.small.empty()) fs::create_directories(setting.small);
  setting.read_only = options.read_only;
  Campaign campaign(setting);
  if (worker == 0) campaign.ReadWholeFiles();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  while (std::chrono::steady_clock::now() < end) campaign.Round();
  nlohmann::json counts{{"findings", campaign.findings()}};
  for (const auto& [kind, c] : campaign.counts())
    counts["kinds"][kind] = {c.runs, c.done, c.refused, c.usage, c.struck};
  tare::PutFile(setting.work / "counts", counts.dump());
  return 0;
}

// The workers' counts in one table.
uint64_t Print(const fs::path& work, int workers) {
  std::map<std::string, Count> sum;
  uint64_t findings = 0;
  for (int worker = 0; worker < workers; ++worker) {
    const auto counts = nlohmann::json::parse(tare::GetFile(work / ("worker-" + std::to_string(worker)) / "counts"));
    findings += counts["findings"].get<uint64_t>();
    for (const auto& [kind, c] : counts["kinds"].items()) {
      Count& s = sum[kind];
      s.runs += c[0].get<uint64_t>(), s.done += c[1].get<uint64_t>(), s.refused += c[2].get<uint64_t>();
      s.usage += c[3].get<uint64_t>(), s.struck += c[4].get<uint64_t>();
    }
  }
  std::printf("%-26s %9s %9s %9s %12s %9s\n", "", "runs", "done", "refused", "wrong usage", "struck");
  for (const auto& [kind, c] : sum)
    std::printf("%-26s %9llu %9llu %9llu %12llu %9llu\n", kind.c_str(), (unsigned long long)c.runs,
                (unsigned long long)c.done, (unsigned long long)c.refused, (unsigned long long)c.usage,
                (unsigned long long)c.struck);
  std::printf("%llu findings\n", (unsigned long long)findings);
  return findings;
}

int Run(Options options) {
  const std::unique_ptr<tare::TemporaryFolder> temporary =
      options.work.empty() ? std::make_unique<tare::TemporaryFolder>() : nullptr;
  const fs::path work = temporary ? temporary->path() : fs::path(options.work);
  if (options.found.empty()) options.found = work / "found";
  tare::attack::MakeGround(work / "ground", options.program.empty() ? options.sanitized : options.program,
                           options.source);
  for (int worker = 0; worker < options.workers; ++worker) {
    if (fork() == 0) {
      try {
        _exit(Work(options, work, worker));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "attack: worker %d: %s\n", worker, error.what());
        _exit(3);
      }
    }
  }
  int status = 0, failed = 0;
  while (wait(&status) > 0) failed += status != 0;
  if (failed != 0) return 3;
  return Print(work, options.workers) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"attacks the tare program"};
  Options options;
  app.add_option("--program", options.program);
  app.add_option("--sanitized", options.sanitized);
  app.add_option("--source", options.source)->required();
  app.add_option("--work", options.work);
  app.add_option("--found", options.found);
  const auto words = [&](const char* name, tare::attack::Words& to) {
    app.add_option(name, to)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  words("--python", options.python);
  words("--sanitized-python", options.sanitized_python);
  app.add_option("--small", options.small);
  app.add_option("--read-only", options.read_only);
  app.add_option("--seconds", options.seconds);
  app.add_option("--seed", options.seed);
  app.add_option("--workers", options.workers);
  CLI11_PARSE(app, argc, argv);
  if (options.program.empty() && options.sanitized.empty()) {
    std::fprintf(stderr, "attack: got no program, expected --program, --sanitized or both\n");
    return 2;
  }
  setenv("OMP_NUM_THREADS", "2", 0);
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("ASAN_OPTIONS", "exitcode=99:max_allocation_size_mb=4096", 0);
  setenv("UBSAN_OPTIONS", "print_stacktrace=1", 0);
  setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
  setenv("SOURCE_DATE_EPOCH", "0", 0);  // rsvg-convert writes it into a PDF
  // Commands run in folders of their own.
  for (std::string* path : {&options.program, &options.sanitized, &options.source, &options.work, &options.found,
                            &options.small, &options.read_only}) {
    if (!path->empty()) *path = fs::absolute(*path);
  }
  try {
    return Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attack: %s\n", error.what());
    return 3;
  }
}
