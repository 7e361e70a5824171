// SPDX-License-Identifier: Apache-2.0
// usage: tare_benchmarks [--threads=1,2] [--benchmark_filter=REGEX] [--benchmark_out=FILE.json] [...]
//
// The rows of kernel_table.h, and oneDNN's beside them (rivals.h), under Google Benchmark. A case is made, run once and
// checked against its scalar reference; one that is wrong is not timed, and the program ends with 1. Counters:
//
//   ns_per_<item>    of attention: a (query, key) pair of one output head; of decoding: a key and an output head
//   Gop/s, GB/s      operations, and bytes that a call has to read or write, a second
//   roofline_%       their share of what this process measured as the machine's limit for them, on as many threads: a
//                    product of operands that stay in cache, or reading as much memory (experiments/bench/roofline.h)
//
// The clock is the wall's. --benchmark_repetitions gives medians and deviations; two --benchmark_out files go into
// Google Benchmark's compare.py (Debian: libbenchmark-tools). --threads: the counts to time, 1 and all by default.
// Debian's library warns that it was built as DEBUG: its own checks are outside the timed loop.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "experiments/bench/roofline.h"
#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/kernels/bench/rivals.h"

namespace {

using namespace tare;

using Clock = std::chrono::steady_clock;

bool any_wrong = false;

// The best that was measured on so many threads. Others use a shared machine at times, so that it is measured again
// where the last time is more than some seconds ago.
const Roofline& LimitsOn(int threads) {
  struct Measured {
    Roofline best;
    Clock::time_point last;
  };
  static std::map<int, Measured> all;
  const auto [at, is_new] = all.try_emplace(threads);
  if (is_new || Clock::now() - at->second.last > std::chrono::seconds(10)) {
    at->second.best = Better(at->second.best, MeasureRoofline(threads));
    at->second.last = Clock::now();
  }
  return at->second.best;
}

// Operations, or bytes, a second; 0 without a limit.
double LimitOf(const Work& work, int threads) {
  switch (work.limit) {
    case Limit::kU8S8:
      return LimitsOn(threads).u8s8_gops * 1e9;
    case Limit::kF32:
      return LimitsOn(threads).f32_gflops * 1e9;
    case Limit::kBf16:
      return LimitsOn(threads).bf16_gflops * 1e9;
    case Limit::kRead: {
      constexpr double kMost = 1 << 30;
      return ReadRate(threads, static_cast<size_t>(std::min(work.memory, kMost))) * 1e9;
    }
    case Limit::kNone:
      return 0;
  }
  return 0;
}

// A case that is made and checked. Google Benchmark calls a benchmark several times, to find how many iterations it
// takes and to repeat it; the case stays until the next one's turn.
struct Checked {
  KernelCase kernel;
  std::string wrong;
  double limit = 0;
};

Checked Check(const KernelRow& row, int64_t size, int threads) try {
  Checked checked{.kernel = row.make(size, Extent::kWhole)};
  checked.kernel.run();
  checked.wrong = checked.kernel.wrong();
  if (checked.wrong.empty()) checked.limit = LimitOf(checked.kernel.work, threads);
  return checked;
} catch (const std::exception& error) {
  return {.wrong = error.what()};
}

const Checked& CheckedCase(const KernelRow& row, int64_t size, int threads) {
  static std::string name;
  static Checked checked;
  const std::string wanted = Formatted("{} {} {}", row.name, size, threads);
  if (wanted != name) {
    checked = {};  // frees its memory first
    checked = Check(row, size, threads);
    name = wanted;
  }
  return checked;
}

// seconds: of a call. Plain numbers: Google Benchmark prints its own rates as "/s" and their inverses as "s", whatever
// their unit.
void Count(const Work& work, double limit, double seconds, benchmark::State& state) {
  if (work.items > 0) state.counters["ns_per_" + std::string(work.item)] = seconds / work.items * 1e9;
  if (work.operations > 0) state.counters["Gop/s"] = work.operations / seconds * 1e-9;
  if (work.bytes > 0) state.counters["GB/s"] = work.bytes / seconds * 1e-9;
  const double limited = work.limit == Limit::kRead ? work.bytes : work.operations;
  if (limit > 0) state.counters["roofline_%"] = 100 * limited / seconds / limit;
}

void Time(const KernelRow& row, benchmark::State& state) {
  const int threads = static_cast<int>(state.range(1));
  SetThreads(threads);
  const Checked& checked = CheckedCase(row, state.range(0), threads);
  if (!checked.wrong.empty()) {
    any_wrong = true;
    state.SkipWithError(checked.wrong + "; nothing was timed");
    return;
  }
  const Clock::time_point start = Clock::now();
  for (auto _ : state) checked.kernel.run();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Count(checked.kernel.work, checked.limit, seconds / static_cast<double>(state.iterations()), state);
}

// "--threads=1,2" of the arguments, which are left without it; by default one thread, and all.
std::vector<int64_t> ThreadsOf(int& argc, char** argv) {
  constexpr std::string_view kOption = "--threads=";
  std::vector<int64_t> threads{1};
  if (Threads() > 1) threads.push_back(Threads());
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    std::string_view text = argv[i];
    if (!text.starts_with(kOption)) {
      argv[kept++] = argv[i];
      continue;
    }
    text.remove_prefix(kOption.size());
    threads.clear();
    while (true) {
      const size_t end = std::min(text.find(','), text.size());
      const std::optional<int64_t> number = ParseNumber<int64_t>(text.substr(0, end));
      if (!number || *number < 1 || *number > 1024)
        FailUsage("--threads: got '{}', expected numbers from 1 to 1024, as in --threads=1,2", text.substr(0, end));
      threads.push_back(*number);
      if (end == text.size()) break;
      text.remove_prefix(end + 1);
    }
  }
  argc = kept;
  argv[argc] = nullptr;
  return threads;
}

int Run(int argc, char** argv) {
  const std::vector<int64_t> threads = ThreadsOf(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::vector<KernelRow> table = KernelTable();
  AddRivalRows(table);
  for (const KernelRow& row : table) {
    const bool alone = row.runs == Runs::kOnOneThread;
    benchmark::RegisterBenchmark(row.name, [&row](benchmark::State& state) { Time(row, state); })
        ->ArgNames({row.size_name, "threads"})
        ->ArgsProduct({row.sizes, alone ? std::vector<int64_t>{1} : threads})
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::AddCustomContext("u8s8_products", UkernelServes(ProductTypes::kS8S8)   ? "ukernel, AMX"
                                               : UkernelServes(ProductTypes::kU8S8) ? "ukernel, VNNI"
                                                                                    : "exact Highway path");
  const size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (matched == 0)
    Fail("--benchmark_filter: got '{}', which no benchmark's name matches; try --benchmark_list_tests",
         benchmark::GetBenchmarkFilter());
  return any_wrong ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try { return Run(argc, argv); } catch (const tare::UsageError& error) {
  std::fprintf(stderr, "tare_benchmarks: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tare_benchmarks: %s\n", error.what());
  return 1;
}
