// SPDX-License-Identifier: Apache-2.0
// JSON: results, whose members keep their order, and text of unknown origin (ParseJson), as sane writers produce it:
// one value, no key twice in an object, at most 32 levels, at most 100,000,000 bytes, values in at most 128 MiB and
// four times the text's bytes of memory, no NUL byte outside strings (the parser would take it for the end).
//
// nlohmann's members are compiled once, in json.cc: compiled in every source that holds a value, they would be a third
// of all generated code. Precompiled headers include this file; sources that build or read JSON include it.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "quant/base/message.h"

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace tare {

using Json = nlohmann::ordered_json;

// Null for NaN and infinities, which JSON cannot write.
inline Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Bytes that are not UTF-8 (file names, damage) become U+FFFD (dump throws). indent: spaces per level; -1: one line.
inline std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A string without its quotes, anything else as JSON.
inline std::string PlainText(const Json& json) { return json.is_string() ? json.get<std::string>() : json.dump(); }

// Throws Error if json is not an integer, or one that T cannot hold; `where` starts the message. nlohmann's own
// conversion silently turns 2^32 + 1 into 1, 1.5 into 1 and -1 into the largest unsigned number.
template <std::integral T>
T IntegerOf(const nlohmann::json& json, std::string_view where) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (!fits)
    Fail("{}: got {}, expected an integer from {} to {}", where, json.dump(), std::numeric_limits<T>::min(),
         std::numeric_limits<T>::max());
  return json.get<T>();
}

// `where` starts messages. Ordered: keys as in the text.
nlohmann::json ParseJson(std::string_view text, const std::string& where);
nlohmann::ordered_json ParseOrderedJson(std::string_view text, const std::string& where);
nlohmann::json ReadJson(const std::filesystem::path& path);

// Throws Error about well-formed JSON that no command writes: it has a value of another kind, or none where one is.
[[noreturn]] void RefuseOdd(const std::string& where, const std::exception& of_json);

}  // namespace tare
