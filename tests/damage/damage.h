// SPDX-License-Identifier: Apache-2.0
// Files damaged at random: in bytes, as by a disk or a network; and in structure, as by a careless or hostile writer,
// so that the fault lies behind the first checks.
#pragma once

#include <filesystem>
#include <string>

#include "tests/damage/random.h"

namespace tare::damage {

enum class Form { kText, kBinary, kJson, kSafetensors, kHdf5 };

// Bits, bytes, pieces cut out, put in, doubled or moved. Never what it was.
std::string DamageBytes(std::string file, Random& random);
// By its structure: JSON (one value, or one to a line) and safetensors headers gain, lose and change values; HDF5 files
// gain, lose and change datasets, attributes and links, half of them with their checksums made right again. Text and
// binary files as above. scratch: where an HDF5 file may be made.
std::string DamageStructure(const std::string& file, Form form, const std::filesystem::path& scratch, Random& random);

}  // namespace tare::damage
