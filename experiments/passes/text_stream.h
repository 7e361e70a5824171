// SPDX-License-Identifier: Apache-2.0
// The text of tokens as they come. A token may be part of a character, or add a leading space only after another token:
// the stream emits the growth of the last tokens' text once it ends with a whole character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

class TextStream {
 public:
  // after: the tokens that came before.
  TextStream(const Tokenizer& tokenizer, const std::vector<int32_t>& after);

  // What the token adds; maybe nothing yet.
  std::string Add(int32_t token);
  // What is left at the end, broken characters as U+FFFD.
  std::string Rest();

 private:
  std::string Grown() const;

  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;  // since the last whole character but one
  size_t told_;                  // of them, whose text was given out
};

}  // namespace tare
