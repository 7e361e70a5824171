// SPDX-License-Identifier: Apache-2.0
#include "quant/file/strict_json.h"

#include <set>
#include <vector>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxBytes = 100'000'000;

// The message of a parser error without nlohmann's own prefix "[json.exception.parse_error.101] ".
std::string Reason(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const size_t bracket = text.find("] ");
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

template <typename Json>
Json Parse(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes) Fail("{}: got {} bytes, expected JSON of at most {}", where, text.size(), kMaxBytes);
  if (text.find('\0') != text.npos) Fail("{}: got a NUL byte, expected JSON text; try downloading it again", where);
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, typename Json::parse_event_t event, const Json& parsed) {
    if (depth >= kMaxDepth) Fail("{}: got JSON nested {} deep, expected less", where, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.template get<std::string>()).second) {
      Fail("{}: got the key '{}' twice, expected once", where, parsed.template get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    Fail("{}: not valid JSON: {}; try downloading or saving it again", where, Reason(error));
  }
}

}  // namespace

nlohmann::json ParseJson(std::string_view text, const std::string& where) { return Parse<nlohmann::json>(text, where); }
nlohmann::ordered_json ParseOrderedJson(std::string_view text, const std::string& where) {
  return Parse<nlohmann::ordered_json>(text, where);
}

nlohmann::json ReadJson(const std::filesystem::path& path) {
  const MappedFile file(path);
  return ParseJson(file.text(), path.string());
}

}  // namespace tare
