// SPDX-License-Identifier: Apache-2.0
// A stack for a thread's signal handlers, those that ask for one (SA_ONSTACK). oneDNN's f32 products for AVX2 and
// AVX-512 point the stack register into buffers of their own while they run (mended in 2026 by
// github.com/uxlfoundation/oneDNN/pull/4855; Debian 13 has 3.7): a handler on the interrupted thread's stack then
// writes over the heap.
#pragma once

#include <cstddef>
#include <memory>

namespace tare {

class SignalStack {
 public:
  // For this thread, unless it has one, or there is no memory for it.
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace tare
