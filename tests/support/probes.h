// SPDX-License-Identifier: Apache-2.0
// A guess of a report on items, by its name.
#pragma once

#include <string>

#include "experiments/tasks/probes.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {

inline const Probe& Of(const ProbeReport& report, const std::string& guess) {
  const Probe* const probe = FindIn(report.probes, guess, &Probe::guess);
  TARE_CHECK(probe != nullptr);
  return *probe;
}

}  // namespace tare
