// SPDX-License-Identifier: Apache-2.0
// JSON of unknown origin, restricted to what a sane writer produces: one value, no key twice in an object, at most 32
// levels deep, at most 100,000,000 bytes, no NUL byte outside strings (the parser would take it for the end).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tare {

// `where` starts messages. Ordered: keys as in the text.
nlohmann::json ParseJson(std::string_view text, const std::string& where);
nlohmann::ordered_json ParseOrderedJson(std::string_view text, const std::string& where);
nlohmann::json ReadJson(const std::filesystem::path& path);

}  // namespace tare
