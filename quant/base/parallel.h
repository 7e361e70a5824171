// SPDX-License-Identifier: Apache-2.0
// Work on all threads (thread_pool.h). It is cut into units that do not depend on the number of threads, so results do
// not depend on it either. oneDNN called from inside runs on the calling thread alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "quant/base/integers.h"

namespace tare {

// Number of threads that ParallelFor uses; 0 means all that the process may run on. Every function here may be called
// by any thread at any time; of calls at once, one has the threads of the pool, and others each run on their own.
void SetThreads(int threads);
int Threads();

// While it lives, this is the number of threads of what its thread calls, and of the workspaces that it asks for,
// whatever SetThreads says. Throws Error for less than 1.
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

// Calls body(index, thread) for every index in [0, count), with thread in [0, Threads()); indices are handed out in
// order, and the caller takes those that no other thread has begun. After an exception no further index starts, and it
// is thrown again here. Called from inside, it runs on the calling thread, with thread 0. The function is a reference
// to body, which is not copied: nothing is allocated.
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
