// SPDX-License-Identifier: Apache-2.0
// HDF5 files damaged through the library: intact as files, with wrong contents.
#pragma once

#include <filesystem>
#include <string>

#include "tests/damage/random.h"

namespace tare::damage {

// One to three changes of datasets, attributes and links. Half the time, checksums are made again afterwards.
std::string DamageHdf5(const std::string& file, const std::filesystem::path& scratch, Random& random);

}  // namespace tare::damage
