// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checked_lines.h"

#include <string_view>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr std::string_view kHashKey = ",\"sha256\":\"", kHashEnd = "\"}";
constexpr size_t kDigits = 64, kHashSize = kHashKey.size() + kDigits + kHashEnd.size();

std::string WithHash(const std::string& begin) { return begin + std::string(kHashKey) + Sha256OfText(begin) + "\"}"; }

// Null if it is not JSON, or not JSON as we write it.
Json ParsedLine(const std::string& text) {
  try {
    return ParseOrderedJson(text, "");
  } catch (const Error&) {
    return {};
  }
}

// Null where the line does not end in its hash.
Json ObjectWithHash(const std::string& line) {
  if (line.size() <= kHashSize) return {};
  const std::string begin = line.substr(0, line.size() - kHashSize);
  return WithHash(begin) == line ? ParsedLine(begin + "}") : Json();
}

std::string SchemaIn(const Json& object) {
  const auto found = object.find("schema");
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Damage of a part leaves the name at the line's beginning or the hash at its end, or a newline in the hash.
bool SaysWhose(const std::string& line, std::string_view schema) {
  const bool is_end =
      line.ends_with(kHashEnd) && line.find_first_not_of("0123456789abcdef") + kHashEnd.size() == line.size();
  return is_end || line.contains(schema.substr(0, schema.find('/') + 1)) || line.contains(kHashKey);
}

}  // namespace

std::string CheckedLine(const Json& object) {
  const std::string text = JsonText(object);
  TARE_CHECK(object.is_object() && !object.empty() && !object.contains("sha256"));
  return WithHash(text.substr(0, text.size() - 1));
}

RecordLines ReadRecords(const std::filesystem::path& path, const RecordKind& kind) {
  RecordLines lines{.path = path, .records = {}, .damaged = {}};
  size_t number = 0, unhashed = 0;
  for (std::string& line : ReadLines(path)) {
    ++number;
    Json object = ObjectWithHash(line);
    bool known = object.is_object() && SchemaIn(object) == kind.schema && kind.is_record(object);
    if (object.is_null()) {
      object = ParsedLine(line);
      known = object.is_object() && !object.contains("sha256") && kind.is_older(object);
      unhashed += known ? 1 : 0;
      if (!known && SaysWhose(line, kind.schema)) {
        lines.damaged.push_back(number);
        continue;
      }
    }
    if (!known)
      Fail("{}: line {}: got something else, expected {}; try another folder, or remove the line", path.string(),
           number, kind.what);
    lines.records.push_back({number, std::move(line), std::move(object)});
  }
  if (unhashed > 0)
    Notice(Formatted("{}: {} of an earlier version without a hash, taken as {}", path.string(),
                     unhashed == 1 ? "1 line" : Formatted("{} lines", unhashed),
                     unhashed == 1 ? "it stands" : "they stand"));
  return lines;
}

std::string DamageText(const RecordLines& lines) {
  const std::string numbers = Listed(lines.damaged, ", ", [](size_t number) { return Formatted("{}", number); });
  return lines.damaged.size() == 1 ? Formatted("{}: line {}: does not match its hash", lines.path.string(), numbers)
                                   : Formatted("{}: lines {}: do not match their hashes", lines.path.string(), numbers);
}

}  // namespace tare
