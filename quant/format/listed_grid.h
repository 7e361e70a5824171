// SPDX-License-Identifier: Apache-2.0
// Formats whose grid is any list of values, with an f32 scale for the values that the plan names:
//
//   grid(-1 -0.25 0 0.5 1)     2 to 256 values, rising; the largest magnitude of a group becomes the list's largest
//   grid(-1.5 -0.4 0.5 1.6)+mean   of keys and values: in units of the group's deviation about its mean (CodeRange)
//
// The name is the list, so plans, results and files with the same name use the same grid and need no other file. Codes
// are indices of 2, 4, 6 or 8 bits. These formats live as long as the process and are numbered after kFormats.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

enum class Format;
struct FormatInfo;

inline constexpr std::string_view kGridMark = "grid(";

// Numbers separated by blanks or line ends. Throws Error, naming `where`, unless there are 2 to 256, finite and rising,
// and the largest magnitude is from 2^-100 to 2^100.
std::vector<float> ParseGrid(std::string_view text, const std::string& where);

// "grid(-1 0 1)", each value in the fewest digits that restore it.
std::string GridName(std::span<const float> values);

// The format of a name that begins with kGridMark, however its values are spelled. Throws Error as ParseGrid does, and
// for the 16385th grid of a process.
Format ListedFormat(std::string_view name);

const FormatInfo& ListedInfo(Format format);
// The same list with CodeRange::kMean; format: the list's own.
const FormatInfo& ListedAboutMean(Format format);
// The value of each index; NaN after the last value.
const std::array<float, 256>& ListedValues(Format format);

}  // namespace tare
