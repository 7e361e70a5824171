// SPDX-License-Identifier: Apache-2.0
// Work on all threads, in units that do not depend on their number: nor do results. oneDNN inside runs on one thread.
//
// The process's threads take shares of one call at a time, and a call does not wait for a thread that has not begun: on
// a machine with other work a thread may get a processor milliseconds late, and small work is over by then. A thread
// without work spins for some microseconds, for calls that follow each other, and then sleeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "quant/base/integers.h"

namespace tare {

// A stack for a thread's signal handlers that ask for one (SA_ONSTACK). oneDNN's f32 products for AVX2 and AVX-512
// point the stack register into their own buffers while they run (github.com/uxlfoundation/oneDNN/pull/4855 of 2026
// mends it; Debian 13 has 3.7): a handler on the interrupted thread's stack then writes over the heap.
class SignalStack {
 public:
  // Gives this thread a stack, unless it has one, or there is no memory for it.
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

class ThreadPool {
 public:
  // The process's one; a child of fork, which has no thread but its own, gets another.
  static ThreadPool& Get();

  // Calls work(0) here, and meanwhile work(1) to work(threads - 1), each at most once, on threads of the pool. Returns
  // when all that began have ended: work(0) must do what nobody else has begun. Where the pool is in use, by another
  // thread or by whoever calls this, work(0) alone. work does not throw. Throws Error where a thread cannot be made.
  void Run(int threads, const std::function<void(int thread)>& work);

  // How long a waiting thread spins before sleep; 50 us at first: above gaps between a pass's calls, below time slices.
  static void SpinFor(std::chrono::microseconds time);

 private:
  explicit ThreadPool(const ThreadPool* of_parent);
  static ThreadPool*& Current();
  void RequireThreads(int threads);
  void Serve(int thread, uint32_t call);
  uint32_t NextCall(uint32_t call) const;
  bool Enter(int thread, uint32_t served);
  void Leave();
  void CloseAndWait();

  static constexpr int kClosed = 1 << 30;

  const ThreadPool* const of_parent_;  // kept for leak checkers
  std::atomic<bool> in_use_{false};
  int made_ = 1;  // with the caller
  // The call's work, threads and number, written while nobody can enter.
  const std::function<void(int)>* work_ = nullptr;
  int threads_ = 0;
  uint32_t number_ = 0;
  alignas(64) std::atomic<int> inside_{
      kClosed};                                // threads of the pool in the call; kClosed is added once none may enter
  alignas(64) std::atomic<uint32_t> call_{0};  // its number
};

// Number of threads that ParallelFor uses; 0 means all that the process may run on. Every function here may be called
// by any thread at any time; of calls at once, one has the threads of the pool, and others each run on their own.
void SetThreads(int threads);
int Threads();

// While it lives, the number of threads of its thread's calls and workspaces, whatever SetThreads says. Error below 1.
class ThreadsOfCalls {
 public:
  explicit ThreadsOfCalls(int threads);
  ~ThreadsOfCalls();
  ThreadsOfCalls(const ThreadsOfCalls&) = delete;

 private:
  int before_;
};

// While it lives, oneDNN called on this thread makes and runs its primitives for one thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;

 private:
  int before_;
};

void ParallelForFunction(size_t count, const std::function<void(size_t index, int thread)>& body);

// Calls body(index, thread) for every index in [0, count), with thread in [0, Threads()). Each thread begins with a run
// of neighbours, in order, and then takes what is left of the others' runs; the caller takes all that no other thread
// has begun. After an exception no further index starts, and it is thrown again here. Called from inside, it runs on
// the calling thread, with thread 0. The function is a reference to body, which is not copied: nothing is allocated.
template <typename Body>
void ParallelFor(size_t count, const Body& body) {
  ParallelForFunction(count, std::cref(body));
}

// Calls body(first, count) for every `step` neighbours in [0, n); the last call may have fewer.
template <typename Body>
void ParallelForBlocks(int64_t n, int64_t step, const Body& body) {
  ParallelFor(static_cast<size_t>(CeilDiv(n, step)), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * step;
    body(first, std::min(step, n - first));
  });
}

}  // namespace tare
