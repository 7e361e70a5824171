// SPDX-License-Identifier: Apache-2.0
// JSON as text. Names of files and the contents of damaged files may not be UTF-8: such bytes become U+FFFD, where
// nlohmann's own dump throws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tare {

// indent: spaces per level; -1: on one line.
std::string JsonText(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace tare
