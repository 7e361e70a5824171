// SPDX-License-Identifier: Apache-2.0
// Static scales in a statistics file, for readers without Tare: a site's clip.FORMAT [rows][calibrators] for each of
// its rows, and tensor_clip.FORMAT [layers][calibrators] for its layers with heads and maps together. They follow from
// the histograms in the file, so they are written when the job is complete, and never read back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quant/file/hdf5.h"
#include "quant/format/format.h"
#include "quant/observe/statistics_set.h"

namespace tare {

inline constexpr const char* kCalibrateKey = "calibrate";  // of StatisticsSet::job

// "int8,int6". Throws Error.
std::vector<Format> ParseCalibratedFormats(std::string_view text);

// Writes nothing where the job has no kCalibrateKey. A site that is never negative takes the unsigned format of as many
// bits, under the signed one's name.
void WriteCalibration(Hdf5Writer& file, const StatisticsSet& set);

}  // namespace tare
