// SPDX-License-Identifier: Apache-2.0
// The keys of a GGUF file that begin with its architecture's name. Each is asked for by name; what nobody asked for may
// change what the model computes, and is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/interchange/gguf/metadata.h"

namespace tare::gguf {

class ArchitectureKeys {
 public:
  // The metadata must outlive it.
  ArchitectureKeys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  // Each throws Error where the key has a value of another kind. A list of numbers, one for each layer, must hold equal
  // ones.
  std::optional<int64_t> Number(std::string_view key);
  int64_t Need(std::string_view key);  // more than 0
  // A finite f32, as the shortest number that is it.
  std::optional<double> Real(std::string_view key);
  std::optional<bool> Flag(std::string_view key) { return metadata_.Flag(Used(key)); }
  std::optional<std::string_view> Text(std::string_view key) { return metadata_.Text(Used(key)); }
  // A list of so many numbers or flags; empty if there is none.
  std::vector<double> Reals(std::string_view key, int64_t count);
  bool IsArray(std::string_view key) const;
  // The key may be missing or have this value.
  void Expect(std::string_view key, int64_t expected, std::string_view why);
  void ExpectReal(std::string_view key, double expected);
  void Ignore(std::string_view key) { Used(key); }
  // All keys of the architecture must have been asked for.
  void CheckAllUsed() const;

  const std::string& where() const { return metadata_.where(); }
  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  std::string Used(std::string_view key) { return *used_.insert(Name(key)).first; }

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace tare::gguf
