// SPDX-License-Identifier: Apache-2.0
#include "quant/base/signal_stack.h"

#include <csignal>
#include <new>

namespace tare {
namespace {

constexpr size_t kBytes = 64 << 10;  // a frame with all of AVX-512's registers takes 4 KiB, with AMX's 12

}  // namespace

SignalStack::SignalStack() {
  stack_t now;
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  memory_.reset(new (std::nothrow) std::byte[kBytes]);
  if (memory_ == nullptr) return;
  const stack_t own{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kBytes};
  if (sigaltstack(&own, nullptr) != 0) memory_.reset();
}

SignalStack::~SignalStack() {
  stack_t now;
  if (memory_ == nullptr || sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory_.get()) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

}  // namespace tare
