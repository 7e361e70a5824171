// SPDX-License-Identifier: Apache-2.0
// Files of records, one JSON object a line, each with its own hash: {"schema":"tare.cell/2",...,"sha256":"HEX"}, of the
// line's text before the comma. A record takes up to hours to compute and is read back days later, so damage must not
// pass for a figure. The hash is a whole SHA-256 as everywhere else: `sha256sum` checks it, and beside the hashes that
// a key holds its 64 digits are few.
//
// A line that cannot be what was written is damaged where it says whose it is, and foreign otherwise. Damaged ones are
// computed again, foreign ones refused. Lines of versions before the hash have none, and are taken as they stand.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quant/file/json.h"

namespace tare {

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
