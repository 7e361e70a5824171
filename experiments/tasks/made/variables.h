// SPDX-License-Identifier: Apache-2.0
// Variable tracking, the task of RULER (arXiv 2404.06654): C chains of assignments hidden in prose, each from a number
// to a variable and over H hops from variable to variable,
//
//   ... VAR QWERT = 12345. ... VAR ABCDE = VAR QWERT. ... VAR XYZZY = VAR ABCDE. ...
//
// As choices, the question names the last variable of a chain, "What is the value of VAR XYZZY? It is", and the endings
// are the numbers of all chains. As targets it is RULER's: "Find all variables that have the value 12345. They are",
// and the answer lists the variables of the chain in its order.
//
// The first assignment of each chain stands at a depth of the list, dealt as for needles (needles.h); the others follow
// anywhere after it. What differs from RULER: the words of the questions; every number is of one chain; its defaults
// are one chain and four hops.
#pragma once

#include "experiments/tasks/made/haystack.h"
#include "experiments/tasks/made/made_item.h"

namespace tare {

struct VariableQuestion {
  std::vector<int64_t> lengths{512};                  // positions, as for needles
  std::vector<double> depths{0, 0.25, 0.5, 0.75, 1};  // of the first assignment of a chain
  size_t chains = 4, hops = 2;                        // C and H
  size_t samples = 50;                                // haystacks per length and depth
  uint64_t seed = 1;
  AnswerForm answers = AnswerForm::kChoices;
};

// With the keys depth, length, chains, hops and sample.
std::vector<Json> MakeVariables(const VariableQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer);

}  // namespace tare
