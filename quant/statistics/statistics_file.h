// SPDX-License-Identifier: Apache-2.0
// Statistics sets as HDF5 files (layout: quant/STATISTICS.md). Equal sets are equal bytes. A file is verified
// completely before use, and every shape and number in it is checked.
#pragma once

#include <filesystem>

#include "quant/observe/statistics_set.h"

namespace tare {

inline constexpr const char* kStatisticsSchema = "tare.stats.file/1";

// Whole or not at all.
void WriteStatistics(const StatisticsSet& set, const std::filesystem::path& path);
// Throws Error if the file is not a statistics file, or is damaged.
StatisticsSet ReadStatistics(const std::filesystem::path& path);

}  // namespace tare
