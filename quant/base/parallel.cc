// SPDX-License-Identifier: Apache-2.0
#include "quant/base/parallel.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "quant/base/error.h"

namespace tare {
namespace {

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int thread_count = 0;

// Hands out indices to workers and keeps the first exception.
class Handout {
 public:
  Handout(size_t count, const std::function<void(size_t, int)>& body) : count_(count), body_(body) {}

  void Work(int thread) noexcept {
    while (!failed_.load(std::memory_order_relaxed)) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      try {
        body_(index, thread);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
  }
  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t, int)>& body_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace

// If OpenMP cannot make a thread it ends the process, so the threads are made here first, all at once.
static void RequireThreads(int threads) {
  static int made = 1;
  if (threads <= made) return;
  std::latch all(1);
  std::vector<std::thread> workers;
  std::string refusal;
  try {
    while (std::ssize(workers) < threads - 1) workers.emplace_back([&all] { all.wait(); });
  } catch (const std::system_error& error) {
    refusal = error.code().message();
  }
  all.count_down();
  for (std::thread& worker : workers) worker.join();
  if (!refusal.empty()) {
    Fail("threads: got {} of {}: {}; try fewer --threads, or raising ulimit -u, or ulimit -v", workers.size() + 1,
         threads, refusal);
  }
  made = threads;
}

void SetThreads(int threads) {
  if (threads < 0) Fail("threads: got {}, expected 0 (all) or more", threads);
  thread_count = threads == 0 ? AvailableProcessors() : threads;
}

int Threads() {
  if (thread_count == 0) SetThreads(0);
  return thread_count;
}

void ParallelForFunction(size_t count, const std::function<void(size_t index, int thread)>& body) {
  Handout handout(count, body);
  const int threads = static_cast<int>(std::min<size_t>(count, static_cast<size_t>(Threads())));
  RequireThreads(threads);
#if TARE_THREADS_STD
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) {
    workers.emplace_back([&handout, t] {
      omp_set_num_threads(1);
      handout.Work(t);
    });
  }
  omp_set_num_threads(1);
  handout.Work(0);
  for (std::thread& worker : workers) worker.join();
#else
  if (threads > 0) {
#pragma omp parallel num_threads(threads)
    handout.Work(omp_get_thread_num());
  }
#endif
  handout.Rethrow();
}

}  // namespace tare
