// SPDX-License-Identifier: Apache-2.0
// Command lines damaged word by word, with words from the program's own help and values that are hard for parsers.
#pragma once

#include <filesystem>

#include "tests/attack/process.h"
#include "tests/damage/random.h"

namespace tare::attack {

using damage::Random;

// Commands and options of the program's help, and hostile values.
Words Dictionary(const std::string& program, const std::filesystem::path& folder);

Words DamageWords(Words words, const Words& dictionary, Random& random);

}  // namespace tare::attack
