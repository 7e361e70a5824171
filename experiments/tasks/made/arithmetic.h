// SPDX-License-Identifier: Apache-2.0
// Arithmetic with steps, after worked examples in the context:
//
//   sums      "345 + 678: 5 + 8 = 13, 1 + 4 + 7 = 12, 1 + 3 + 6 = 10, total 1023", digit by digit from the right
//   stories   "Anna has 12 apples. Anna finds 5 more. Anna gives 3 to Tom. How many apples has Anna now? 12 + 5 = 17,
//             17 - 3 = 14, so Anna has 14", of the kind of GSM8K's, with two to four steps
//
// As targets, the model writes steps and answer after the last question; the target is the number. As choices there is
// no room for steps: examples are "345 + 678 = 1023" and "... How many apples has Anna now? Anna has 14", and the
// endings are four numbers at equal distances, of which the answer is each rank equally often (dealt). The four are
// drawn before the question is made for one of them, so they alone tell nothing; none of them stands in the context.
// Sums are 10^i apart, as those with a wrong digit or carry are, stories 1 to 9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/tasks/made/made_item.h"
#include "quant/file/json_value.h"

namespace tare {

struct SumQuestion {
  std::vector<size_t> digits{2, 3};  // of both numbers, 2 to 15
  size_t shots = 4;                  // worked examples
  size_t samples = 50;               // per number of digits
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};
// With the keys digits, shots and sample.
std::vector<Json> MakeSums(const SumQuestion& question);

struct StoryQuestion {
  std::vector<size_t> steps{2, 3};  // 1 to 8
  size_t shots = 4;
  size_t samples = 50;  // per number of steps
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};
// With the keys steps, shots and sample.
std::vector<Json> MakeStories(const StoryQuestion& question);

}  // namespace tare
