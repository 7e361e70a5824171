// SPDX-License-Identifier: Apache-2.0
// While it lives, the process was asked to stop, as by Ctrl-C.
#pragma once

#include "quant/base/message.h"

namespace tare {

struct AskedToStop {
  AskedToStop() { RequestStop(); }
  AskedToStop(const AskedToStop&) = delete;
  ~AskedToStop() { ForgetStop(); }
};

}  // namespace tare
