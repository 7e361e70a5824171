// SPDX-License-Identifier: Apache-2.0
// HDF5 files damaged through the library: intact as files, with wrong contents.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/damage/random.h"

namespace tare::damage {

// One to three changes of datasets, attributes and links. Half the time, checksums are made again afterwards.
std::string DamageHdf5(const std::string& file, const std::filesystem::path& scratch, Random& random);

// A part of the file that a checksum of HDF5 ends; none: what follows a signature of version 1.
struct Block {
  size_t at = 0, size = 0;
  bool checked = false;
};
std::vector<Block> BlocksOf(const std::string& file);
// Makes the checksum right again.
void Sign(std::string& file, const Block& block);

// Some bytes of the structures changed, with right checksums. What reads the result may crash in the HDF5 library.
std::string ForgeHdf5(std::string file, Random& random);

}  // namespace tare::damage
