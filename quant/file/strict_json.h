// SPDX-License-Identifier: Apache-2.0
// JSON of unknown origin, restricted to what a sane writer produces: one value, no key twice in an object, at most 32
// levels deep, at most 100,000,000 bytes, no NUL byte outside strings (the parser would take it for the end).
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace tare {

// An object or list too long to hold as JSON, which costs several allocations a member: `outer.inner` of the text.
struct JsonStream {
  std::string_view outer, inner;
  enum class Kind { kObject, kList } kind;  // one of the other kind, or anything else, is held as usual
  // Gets each member as soon as it is read; the key of a list's is empty. Refuses keys that come twice.
  std::function<void(const std::string& key, const nlohmann::json& value)> take;
};

// `where` starts messages. Leaves the objects and lists of `streams` empty. Ordered: keys as in the text.
nlohmann::json ParseJson(std::string_view text, const std::string& where, std::span<const JsonStream> streams = {});
nlohmann::ordered_json ParseOrderedJson(std::string_view text, const std::string& where);
nlohmann::json ReadJson(const std::filesystem::path& path);

// Throws Error about well-formed JSON that no command writes: it has a value of another kind, or none where one is.
[[noreturn]] void RefuseOdd(const std::string& where, const std::exception& of_json);

}  // namespace tare
