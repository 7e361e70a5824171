// SPDX-License-Identifier: Apache-2.0
// Lines with their hash, remembered hashes, SHA-256 itself, and records.
#include "quant/file/sha256.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <openssl/evp.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/files_of_run.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

constexpr const char *kHashSchema = "tare.hash/1", *kHashOfFile = "sha256_of_file";
constexpr std::chrono::nanoseconds kSettled = std::chrono::seconds(2);

fs::path hash_folder;

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

bool IsRemembered(const MappedFile& file) { return !hash_folder.empty() && file.bytes().size() >= kRememberedSize; }

fs::path EntryOf(const Json& state) { return hash_folder / Sha256OfText(JsonText(state)).substr(0, 32); }

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

// None where it is not known, or what is known is damaged.
std::optional<std::string> Remembered(const Json& state) {
  try {
    TakeForOwn(EntryOf(state));
    const std::vector<std::string> lines = ReadLines(EntryOf(state));
    Json object = lines.size() == 1 ? ObjectWithHash(lines.front()) : Json();
    if (!object.is_object() || !object.contains(kHashOfFile)) return std::nullopt;
    const Json hash = std::exchange(object[kHashOfFile], Json());
    object.erase(kHashOfFile);
    if (object == state && hash.is_string()) return hash;
  } catch (const Error&) {  // something else, or unreadable: hashed again
  }
  return std::nullopt;
}

void Remember(const MappedFile& file, const std::string& hash) {
  if (std::chrono::system_clock::now().time_since_epoch() - file.state().changed < kSettled) return;
  Json object = StateOf(file);
  const fs::path entry = EntryOf(object);
  object[kHashOfFile] = hash;
  std::error_code error;
  fs::create_directories(hash_folder, error);
  try {
    WriteFileAtomically(entry, CheckedLine(object) + "\n");
  } catch (const Error&) {  // no room, no right, or another process remembers the same: hashed again next time
  }
}

// Damage of a part leaves the name at the line's beginning or the hash at its end, or a newline in the hash.
bool SaysWhose(const std::string& line, std::string_view schema) {
  const bool is_end =
      line.ends_with(kHashEnd) && line.find_first_not_of("0123456789abcdef") + kHashEnd.size() == line.size();
  return is_end || line.contains(schema.substr(0, schema.find('/') + 1)) || line.contains(kHashKey);
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// Fetched once: EVP_sha256() would look it up again for every hash, under locks that the thread sanitizer cannot see.
static const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || Algorithm() == nullptr || EVP_DigestInit_ex(context_.get(), Algorithm(), nullptr) != 1)
    Fail("SHA-256: libcrypto does not offer it; try another build of OpenSSL 3");
}

void Sha256::Add(std::span<const std::byte> bytes) {
  TARE_CHECK(context_ != nullptr);
  TARE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  TARE_CHECK(context_ != nullptr);
  std::array<unsigned char, 32> digest;
  TARE_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  context_.reset();
  std::string hex;
  for (const unsigned char byte : digest) hex += Formatted("{:02x}", byte);
  return hex;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

std::string Sha256OfText(std::string_view text) { return Sha256Hex(std::as_bytes(std::span(text))); }

std::string Sha256Hex(const MappedFile& file, const FileRead& read) {
  const size_t size = file.bytes().size();
  constexpr size_t kStep = size_t{8} << 20;  // at most so much of the file in our memory at a time
  Sha256 hash;
  for (size_t begin = 0; begin < size; begin += kStep) {
    ThrowIfStopped();
    const std::span<const std::byte> part = file.bytes().subspan(begin, std::min(kStep, size - begin));
    hash.Add(part);
    if (read) read(part);
    file.Release(part);
  }
  return hash.Hex();
}

std::string Sha256OfFile(const std::filesystem::path& path) { return Sha256Hex(MappedFile(path)); }

void RememberHashesIn(const fs::path& folder) { hash_folder = folder; }

std::string HashOfFile(const MappedFile& file, const FileRead& read) {
  if (!read && IsRemembered(file)) {
    if (std::optional<std::string> hash = Remembered(StateOf(file))) return *hash;
  }
  std::string hash = Sha256Hex(file, read);
  if (IsRemembered(file)) Remember(file, hash);
  return hash;
}

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
    bool known = object.is_object() && object.value("schema", Json()) == kind.schema && kind.is_record(object);
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
                     Counted(static_cast<int64_t>(unhashed), "line"), unhashed == 1 ? "it stands" : "they stand"));
  return lines;
}

std::string DamageText(const RecordLines& lines) {
  const std::string numbers = Listed(lines.damaged, ", ", [](size_t number) { return Formatted("{}", number); });
  return lines.damaged.size() == 1 ? Formatted("{}: line {}: does not match its hash", lines.path.string(), numbers)
                                   : Formatted("{}: lines {}: do not match their hashes", lines.path.string(), numbers);
}

}  // namespace tare
