// SPDX-License-Identifier: Apache-2.0
// llama.cpp's importance matrices: for each weight, by its name in GGUF files, sums of x^2 over the rows x that were
// multiplied by it, for each channel. Two layouts, as llama-imatrix writes them at commit d32676d:
//
//   GGUF    general.type "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size
//           per weight, by name: F32 NAME.in_sum2 [experts, channels], NAME.counts [experts, 1]; others are not read
//   binary  i32 weights; per weight i32 length, name, i32 calls, i32 values, f32 values = sum / count calls (1 calls
//           where a count is 0); then, all optional, i32 chunks, i32 length, the last data set's name
//
// calls: ceil(the largest count / chunk_size, at least 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tare::gguf {

struct Imatrix {
  struct Entry {
    std::vector<float> sums;    // [experts, channels]
    std::vector<float> counts;  // [experts], or one for all; in the binary layout these are calls

    // The mean of x^2 by channel, of one expert of so many; 1 where no row was counted, as llama-quantize has it.
    std::vector<float> Means(size_t expert, size_t experts) const;
  };

  std::map<std::string, Entry> entries;
  std::vector<std::string> datasets;
  int64_t chunk_count = 0, chunk_size = 0;  // chunk_size: rows; 0: not known
  std::string where = "imatrix";            // the file that it was read from
};

// Either layout. Throw Error, naming file and weight, for sums and counts not finite, below 0 or of unequal sizes.
Imatrix ReadImatrix(const std::filesystem::path& path);
// As llama.cpp writes it, byte for byte, whole or not at all: binary where the name ends in .dat, else GGUF.
void WriteImatrix(const Imatrix& matrix, const std::filesystem::path& path);

}  // namespace tare::gguf
