// SPDX-License-Identifier: Apache-2.0
// One object of a quantization_config, read strictly: whatever is asked for has its type and range, and RefuseOthers
// names the first key that nothing asked for, because a key that is not understood may change the numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/json_value.h"

namespace tare {

class SchemeKeys {
 public:
  // The object outlives this. Throws Error if it is none.
  SchemeKeys(const Json& object, std::string where);

  const Json* Find(std::string_view key);  // null if it is missing or null
  bool Has(std::string_view key) { return Find(key) != nullptr; }
  int64_t Integer(std::string_view key, int64_t least, int64_t most);
  int64_t Integer(std::string_view key, int64_t least, int64_t most, int64_t otherwise);
  bool Flag(std::string_view key, bool otherwise);
  std::string Text(std::string_view key);
  std::string Text(std::string_view key, const std::string& otherwise);
  // Strings, or lists of them within the list.
  std::vector<std::string> Texts(std::string_view key);
  // Missing, null, or one of these JSON texts; others are refused.
  void Only(std::string_view key, std::initializer_list<std::string_view> accepted);
  // What says how a checkpoint was made, or how it is run, and changes no number.
  void Ignore(std::initializer_list<std::string_view> keys);
  void RefuseOthers() const;

  const std::string& where() const { return where_; }
  [[noreturn]] void Wrong(std::string_view key, std::string_view expected) const;

 private:
  const Json& Get(std::string_view key);

  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace tare
