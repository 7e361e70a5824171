// SPDX-License-Identifier: Apache-2.0
#include "quant/base/parallel.h"

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <exception>

#include "quant/base/message.h"
#include "quant/base/thread_pool.h"

namespace tare {
namespace {

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::atomic<int> thread_count = 0;    // of the process; 0: not yet asked
thread_local int count_of_calls = 0;  // of this thread's calls; 0: the process's

// Hands out indices to workers and keeps the first exception.
class Handout {
 public:
  Handout(size_t count, const std::function<void(size_t, int)>& body) : count_(count), body_(body) {}

  void Work(int thread) noexcept {
    while (!failed_.load(std::memory_order_relaxed)) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      try {
        ThrowIfStopped();
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

void SetThreads(int threads) {
  if (threads < 0) Fail("threads: got {}, expected 0 (all) or more", threads);
  thread_count = threads == 0 ? AvailableProcessors() : threads;
}

int Threads() {
  if (count_of_calls != 0) return count_of_calls;
  if (thread_count == 0) SetThreads(0);
  return thread_count;
}

ThreadsOfCalls::ThreadsOfCalls(int threads) : before_(count_of_calls) {
  if (threads < 1) Fail("threads of calls: got {}, expected at least 1", threads);
  count_of_calls = threads;
}
ThreadsOfCalls::~ThreadsOfCalls() { count_of_calls = before_; }

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

void ParallelForFunction(size_t count, const std::function<void(size_t index, int thread)>& body) {
  if (count == 0) return;
  thread_local const SignalStack for_products;
  const OneThread of_onednn;
  Handout handout(count, body);
  const auto work = [&](int thread) { handout.Work(thread); };
  ThreadPool::Get().Run(static_cast<int>(std::min<size_t>(count, static_cast<size_t>(Threads()))), std::cref(work));
  handout.Rethrow();
}

}  // namespace tare
