// SPDX-License-Identifier: Apache-2.0
#include "quant/file/remembered_hashes.h"

#include <chrono>
#include <optional>
#include <system_error>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/checked_lines.h"
#include "quant/file/files_of_run.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHashSchema = "tare.hash/1";
constexpr std::chrono::nanoseconds kSettled = std::chrono::seconds(2);

fs::path& HashFolder() {
  static fs::path folder;
  return folder;
}

// What identifies a file and its content.
Json StateOf(const MappedFile& file) {
  const FileState& s = file.state();
  return Json{{"schema", kHashSchema},
              {"device", s.device},
              {"inode", s.inode},
              {"bytes", s.bytes},
              {"modified_ns", s.modified.count()},
              {"changed_ns", s.changed.count()}};
}

bool IsRemembered(const MappedFile& file) { return !HashFolder().empty() && file.bytes().size() >= kRememberedSize; }

fs::path EntryOf(const Json& state) { return HashFolder() / Sha256OfText(JsonText(state)).substr(0, 32); }

// None where it is not known, or what is known is damaged.
std::optional<std::string> Remembered(const Json& state) {
  static const RecordKind kind{
      .schema = kHashSchema,
      .what = "a remembered hash",
      .is_record =
          [](const Json& object) { return object.contains("sha256_of_file") && object["sha256_of_file"].is_string(); },
      .is_older = [](const Json&) { return false; }};
  try {
    TakeForOwn(EntryOf(state));
    const RecordLines lines = ReadRecords(EntryOf(state), kind);
    if (lines.records.size() != 1 || !lines.damaged.empty()) return std::nullopt;
    Json object = lines.records.front().object;
    std::string hash = object.at("sha256_of_file");
    object.erase("sha256_of_file");
    if (object == state) return hash;
  } catch (const Error&) {  // something else, or unreadable: hashed again
  }
  return std::nullopt;
}

void Remember(const MappedFile& file, const std::string& hash) {
  if (std::chrono::system_clock::now().time_since_epoch() - file.state().changed < kSettled) return;
  Json object = StateOf(file);
  const fs::path entry = EntryOf(object);
  object["sha256_of_file"] = hash;
  std::error_code error;
  fs::create_directories(HashFolder(), error);
  try {
    WriteFileAtomically(entry, CheckedLine(object) + "\n");
  } catch (const Error&) {  // no room, no right, or another process remembers the same: hashed again next time
  }
}

}  // namespace

void RememberHashesIn(const fs::path& folder) { HashFolder() = folder; }

std::string HashOfFile(const MappedFile& file, const FileRead& read) {
  if (!read && IsRemembered(file)) {
    if (std::optional<std::string> hash = Remembered(StateOf(file))) return *hash;
  }
  std::string hash = Sha256Hex(file, read);
  if (IsRemembered(file)) Remember(file, hash);
  return hash;
}

}  // namespace tare
