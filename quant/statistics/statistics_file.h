// SPDX-License-Identifier: Apache-2.0
// Statistics sets as HDF5 files (layout: docs/reference/statistics-file.md). Equal sets are equal bytes. A file is
// verified completely before use, and every shape and number in it is checked.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/hdf5.h"
#include "quant/format/format.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// /1 had all positions only, and counted attention logits of rows of one key.
inline constexpr const char* kStatisticsSchema = "tare.stats.file/2";

// The group of sites without the first positions: rest/layer_out beside layer_out.
inline constexpr const char* kRestGroup = "rest/";
inline std::string GroupOf(Site site, int64_t from) {
  return (from > 0 ? kRestGroup : std::string()) + std::string(Name(site));
}

// A command's options, which its unfinished file keeps to name those in which another differs; none in other files.
using Asked = std::map<std::string, std::string>;
inline constexpr const char* kAskedKey = "asked";
Asked AskedOf(const std::filesystem::path& path);

// Writes the whole file or nothing.
void WriteStatistics(const StatisticsSet& set, const std::filesystem::path& path, const Asked& asked = {});
// Throws Error if the file is not a statistics file, or is damaged.
StatisticsSet ReadStatistics(const std::filesystem::path& path);

// Static scales in a statistics file, for readers without Tare: clip.FORMAT [rows][calibrators] for each row of a site,
// and tensor_clip.FORMAT [layers][calibrators] for whole layers. They follow from the histograms in the file, so they
// are written only when the job is complete, and never read back.
inline constexpr const char* kCalibrateKey = "calibrate";  // of StatisticsSet::job

// "int8,int6". Throws Error.
std::vector<Format> ParseCalibratedFormats(std::string_view text);

// Writes nothing without kCalibrateKey. Sites never negative use unsigned formats of as many bits, under signed names.
void WriteCalibration(Hdf5Writer& file, const StatisticsSet& set);

}  // namespace tare
