// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto, as 64 lower-case hexadecimal digits, as `sha256sum` prints it.
//
// Hashes of large files are remembered between runs: 14 GB take 7 s at 2 GB/s, a minute and a half from a disk.
//
// A file is unchanged while device, inode, size and times of change are as when hashed; no program can set ctime. One
// that changed less than two seconds before it was opened is not remembered: a slow clock may give its next change the
// same time. Memory is one small file per hash, itself hashed (below); a missing, damaged or unwritable one costs time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/json.h"
#include "quant/file/mapped_file.h"

struct evp_md_ctx_st;

namespace tare {

class Sha256 {
 public:
  Sha256();
  void Add(std::span<const std::byte> bytes);
  // The digest of all added bytes. Call it once, last.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Sha256OfText(std::string_view text);
// Gives back memory as it reads; throws Error after RequestStop. `read` sees each part, hashed and still in memory.
using FileRead = std::function<void(std::span<const std::byte> part)>;
std::string Sha256Hex(const MappedFile& file, const FileRead& read = {});
std::string Sha256OfFile(const std::filesystem::path& path);

// Where hashes are remembered from now on, process-wide; empty path, or no call: nowhere. Made when it is needed.
void RememberHashesIn(const std::filesystem::path& folder);

// Files of fewer bytes are hashed each time: 64 MiB take 30 ms.
inline constexpr size_t kRememberedSize = size_t{64} << 20;

// Sha256Hex of the whole file; with `read` it is read in any case, and its hash remembered too.
std::string HashOfFile(const MappedFile& file, const FileRead& read = {});

// ---- Files of records, one JSON object a line, each with its own hash: {"schema":"tare.cell/2",...,"sha256":"HEX"},
// of the text before the comma. Records take hours to compute and are read days later: damage must not pass for a
// figure. The hash is a whole SHA-256, so that `sha256sum` checks it; beside the hashes in a key 64 digits are few.
//
// A line that cannot be what was written is damaged where it says whose it is, and foreign otherwise. Damaged ones are
// computed again, foreign ones refused. Lines of versions before the hash have none, and are taken as they stand.

// The object's line, without a newline.
std::string CheckedLine(const Json& object);

struct RecordKind {
  const char* schema;                                 // "tare.cell/2"; its name, before the slash, says whose a line is
  const char* what;                                   // "a finished run"
  std::function<bool(const Json& object)> is_record;  // of this schema
  std::function<bool(const Json& object)> is_older;   // a record of a version before the hash
};

struct Record {
  size_t number = 0;  // of its line, from 1
  std::string line;
  Json object;  // without its hash
};

struct RecordLines {
  std::filesystem::path path;
  std::vector<Record> records;
  std::vector<size_t> damaged;  // numbers of lines
};

// None where the file is missing. Throws Error for a foreign line; a notice says that lines have no hash.
RecordLines ReadRecords(const std::filesystem::path& path, const RecordKind& kind);

// "cells.jsonl: lines 2, 5: do not match their hashes"
std::string DamageText(const RecordLines& lines);

}  // namespace tare
