// SPDX-License-Identifier: Apache-2.0
// Figures as one page that needs nothing else: drawings, tables, findings and what was run. It has no network, no
// script but its own, and everything that came from files is text in it.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/drawing/drawing.h"
#include "experiments/report/figures/figures.h"

namespace tare {

struct PageWords {
  std::string title, version, command;
};
std::string ReportPage(const PageWords& words, const Material& material, const std::vector<FigureData>& figures,
                       Drawing& drawing);

}  // namespace tare
