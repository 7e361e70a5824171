// SPDX-License-Identifier: Apache-2.0
// Lists of values, of which a format's grid may consist, with an f32 scale for the values that the plan names:
//
//   grid(-1 -0.25 0 0.5 1)     2 to 256 values, rising; the largest magnitude of a group becomes the list's largest
//   grid(-1.5 -0.4 0.5 1.6)+mean   of keys and values: in units of the group's deviation about its mean (CodeRange)
//
// The name is the list, so plans, results and files with the same name use the same grid and need no other file. Codes
// are indices of 2, 4, 6 or 8 bits.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tare {

struct FormatInfo;
enum class CodeRange : uint8_t;

inline constexpr std::string_view kGridMark = "grid(";

// Numbers separated by blanks or line ends. Throws Error, naming `where`, unless there are 2 to 256, finite and rising,
// and the largest magnitude is from 2^-100 to 2^100.
std::vector<float> ParseGrid(std::string_view text, const std::string& where);

// "grid(-1 0 1)", each value in the fewest digits that restore it.
std::string GridName(std::span<const float> values);

// A list that its copies share and the last of them frees, on any thread: a copy is a pointer and a test. Most formats
// have none, and those are constants.
class Levels {
 public:
  constexpr Levels() = default;
  explicit Levels(std::span<const float> values);  // as ParseGrid gives them
  constexpr Levels(const Levels& other) : list_(other.list_) {
    if (list_ != nullptr) Hold();
  }
  constexpr Levels(Levels&& other) noexcept : list_(std::exchange(other.list_, nullptr)) {}
  constexpr Levels& operator=(Levels other) noexcept {
    std::swap(list_, other.list_);
    return *this;
  }
  constexpr ~Levels() {
    if (list_ != nullptr) Release();
  }

  constexpr bool empty() const { return list_ == nullptr; }
  std::span<const float> values() const;
  // The value of each index, NaN after the last one, and the info of a format with this list, which must not be empty.
  const std::array<float, 256>& table() const;
  const FormatInfo& Info(CodeRange range) const;

  // Lists compare by their values.
  friend constexpr std::partial_ordering operator<=>(const Levels& a, const Levels& b) {
    return a.list_ == b.list_ ? std::partial_ordering::equivalent : a.CompareValues(b);
  }
  friend constexpr bool operator==(const Levels& a, const Levels& b) { return (a <=> b) == 0; }

 private:
  struct List;
  void Hold() const;
  void Release() const;
  std::partial_ordering CompareValues(const Levels& other) const;

  List* list_ = nullptr;
};

}  // namespace tare
