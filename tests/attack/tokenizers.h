// SPDX-License-Identifier: Apache-2.0
// tokenizer.json by its grammar: every kind of normalizer, pre-tokenizer, model, decoder, post-processor and added
// token, in any order and depth, with values that are hard for whoever runs them. Damaged bytes seldom get so far.
#pragma once

#include <string>

#include "quant/file/json.h"
#include "tests/damage/random.h"

namespace tare::attack {

using damage::Random;

// charsmap: of a valid file, in base64, for what is built upon it.
nlohmann::json RandomTokenizer(const std::string& charsmap, Random& random);
// UTF-8, of a few bytes up to some ten thousand.
std::string RandomText(Random& random);

}  // namespace tare::attack
