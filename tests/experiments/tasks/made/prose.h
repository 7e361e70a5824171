// SPDX-License-Identifier: Apache-2.0
// The material of made items in tests: the beginning of the embedded pair's text, and its tokenizer.
#pragma once

#include <string>

#include "experiments/tasks/made/makers.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare {

inline const Tokenizer& ProseTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-standard"));
  return tokenizer;
}

inline const Haystack& Prose() {
  static const std::string text = GetFile(PairFolder("heldout.txt")).substr(0, 400000);
  static const Haystack haystack(text, ProseTokenizer(), "prose.txt");
  return haystack;
}

}  // namespace tare
