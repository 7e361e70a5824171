// SPDX-License-Identifier: Apache-2.0
#include "quant/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <exception>
#include <new>
#include <system_error>
#include <thread>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kStackBytes = 64 << 10;  // a frame with all of AVX-512's registers takes 4 KiB, with AMX's 12

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

std::atomic<int64_t> spin_microseconds = 50;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until done() for at most the time that is set; whether it is.
template <typename Done>
bool Spin(const Done& done) {
  constexpr int kTries = 64;  // between two looks at the clock
  if (done()) return true;
  const microseconds most(spin_microseconds);
  if (most.count() == 0) return false;
  const Clock::time_point end = Clock::now() + most;
  do {
    for (int i = 0; i < kTries; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (Clock::now() < end);
  return false;
}

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::atomic<int> thread_count = 0;    // of the process; 0: not yet asked
thread_local int count_of_calls = 0;  // of this thread's calls; 0: the process's

// Hands out indices to workers and keeps the first exception. Each worker first takes a run of neighbours, of which a
// kernel that reads ahead has asked for the next, then what is left of the runs of others.
class Handout {
 public:
  Handout(size_t count, int threads, const std::function<void(size_t, int)>& body)
      : count_(count), runs_(std::min<size_t>(kMostRuns, static_cast<size_t>(threads))), body_(body) {}

  void Work(int thread) noexcept {
    for (size_t i = 0; i < runs_; ++i) {
      const size_t run = (static_cast<size_t>(thread) + i) % runs_;
      const size_t begin = run * count_ / runs_, size = (run + 1) * count_ / runs_ - begin;
      for (size_t at; !failed_.load(std::memory_order_relaxed) && (at = taken_[run]++) < size;) {
        try {
          ThrowIfStopped();
          body_(begin + at, thread);
        } catch (...) {
          if (!failed_.exchange(true)) error_ = std::current_exception();
        }
      }
    }
  }
  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr size_t kMostRuns = 16;
  const size_t count_, runs_;
  const std::function<void(size_t, int)>& body_;
  std::atomic<size_t> taken_[kMostRuns] = {};  // of each run
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace

SignalStack::SignalStack() {
  stack_t now;
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  memory_.reset(new (std::nothrow) std::byte[kStackBytes]);
  if (memory_ == nullptr) return;
  const stack_t own{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kStackBytes};
  if (sigaltstack(&own, nullptr) != 0) memory_.reset();
}

SignalStack::~SignalStack() {
  stack_t now;
  if (memory_ == nullptr || sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory_.get()) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

ThreadPool::ThreadPool(const ThreadPool* of_parent) : of_parent_(of_parent) {}

// Never destroyed: its threads may still sleep in it when the process ends.
ThreadPool*& ThreadPool::Current() {
  static ThreadPool* pool = [] {
    pthread_atfork(nullptr, nullptr, [] { Current() = new ThreadPool(Current()); });
    return new ThreadPool(nullptr);
  }();
  return pool;
}

void ThreadPool::SpinFor(microseconds time) { spin_microseconds = time.count(); }

ThreadPool& ThreadPool::Get() { return *Current(); }

void ThreadPool::RequireThreads(int threads) {
  for (; made_ < threads; ++made_) {
    try {
      std::thread([this, thread = made_, call = call_.load()] { Serve(thread, call); }).detach();
    } catch (const std::system_error& error) {
      Fail("threads: got {} of {}: {}; try fewer --threads, or raising ulimit -u, or ulimit -v", made_, threads,
           error.code().message());
    }
  }
}

void ThreadPool::Serve(int thread, uint32_t call) {
  omp_set_num_threads(1);  // oneDNN's own
  const SignalStack for_products;
  // A thread that wakes late enters a later call than it woke for; that one's notice must not make it enter again.
  for (uint32_t served = call;;) {
    call = NextCall(call);
    if (!Enter(thread, served)) continue;
    served = number_;
    (*work_)(thread);
    Leave();
  }
}

uint32_t ThreadPool::NextCall(uint32_t call) const {
  if (!Spin([&] { return call_.load(std::memory_order_acquire) != call; })) call_.wait(call, std::memory_order_acquire);
  return call_.load(std::memory_order_acquire);
}

bool ThreadPool::Enter(int thread, uint32_t served) {
  int inside = inside_.load(std::memory_order_relaxed);
  do {
    if ((inside & kClosed) != 0) return false;
  } while (!inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire, std::memory_order_relaxed));
  if (thread < threads_ && number_ != served) return true;
  Leave();
  return false;
}

void ThreadPool::Leave() {
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) inside_.notify_one();
}

void ThreadPool::CloseAndWait() {
  inside_.fetch_add(kClosed, std::memory_order_acq_rel);
  const auto ended = [&] { return inside_.load(std::memory_order_acquire) == kClosed; };
  if (Spin(ended)) return;
  for (int inside; (inside = inside_.load(std::memory_order_acquire)) != kClosed;)
    inside_.wait(inside, std::memory_order_acquire);
}

void ThreadPool::Run(int threads, const std::function<void(int thread)>& work) {
  if (threads <= 1 || in_use_.exchange(true, std::memory_order_acquire)) return work(0);
  struct Use {
    std::atomic<bool>& flag;
    ~Use() { flag.store(false, std::memory_order_release); }
  } const use{in_use_};
  RequireThreads(threads);
  work_ = &work;
  threads_ = threads;
  number_ = call_.load(std::memory_order_relaxed) + 1;
  inside_.store(0, std::memory_order_release);
  call_.fetch_add(1, std::memory_order_release);
  call_.notify_all();
  work(0);
  CloseAndWait();
}

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
  const auto threads = static_cast<int>(std::min<size_t>(count, static_cast<size_t>(Threads())));
  Handout handout(count, threads, body);
  const auto work = [&](int thread) { handout.Work(thread); };
  ThreadPool::Get().Run(threads, std::cref(work));
  handout.Rethrow();
}

}  // namespace tare
