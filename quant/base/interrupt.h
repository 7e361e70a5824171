// SPDX-License-Identifier: Apache-2.0
// Ctrl-C in a long run: a signal handler, on a stack of its own (signal_stack.h), calls RequestStop, and the long loops
// call ThrowIfStopped between units of work, as ParallelFor does, so that the stack unwinds, temporary files are
// removed and finished work is kept.
#pragma once

#include "quant/base/error.h"

namespace tare {

// What ends a run that was asked to stop.
class Interrupted : public Error {
 public:
  using Error::Error;
};

void RequestStop() noexcept;  // safe in a signal handler
bool StopRequested();
void ThrowIfStopped();  // throws Interrupted after RequestStop

}  // namespace tare
