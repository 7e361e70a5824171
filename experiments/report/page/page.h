// SPDX-License-Identifier: Apache-2.0
// All figures on one self-contained page: drawings, tables, findings and the commands that were run. It loads nothing
// from the network, runs no script but its own, and shows everything from files as text.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/report/figures/figures.h"

namespace tare {

struct PageWords {
  std::string title, version, command;
};
std::string ReportPage(const PageWords& words, const Material& material, const std::vector<FigureData>& figures,
                       Drawing& drawing);

}  // namespace tare
