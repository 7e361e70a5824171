// SPDX-License-Identifier: Apache-2.0
// What tare judge says of files, as JSON, and a cell of it.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"

namespace tare {

inline nlohmann::json Judged(std::vector<std::string> files) {
  files.insert(files.begin(), "judge");
  files.insert(files.end(), {"--json", "-"});
  const Outcome outcome = CallTare(files);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

inline const nlohmann::json& Cell(const nlohmann::json& judged, const std::string& model, const std::string& task) {
  for (const nlohmann::json& cell : judged.at("cells"))
    if (cell.at("model") == model && cell.at("task") == task) return cell;
  throw std::runtime_error("no cell of " + model);
}

}  // namespace tare
