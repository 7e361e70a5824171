// SPDX-License-Identifier: Apache-2.0
// HellaSwag's texts as lm-evaluation-harness prepares them (lm_eval/tasks/hellaswag/utils.py): WikiHow's artifacts in
// brackets are removed; activity, previous sentences and the beginning of the last one form the context.
//
// Letters change case one to one, by Unicode's simple mappings. Python's capitalize() differs for Greek's final sigma,
// for letters whose capital is several letters or a title form (ligatures, the German sharp s, digraphs), and for
// Georgian; HellaSwag is in English.
#pragma once

#include <string>
#include <string_view>

namespace tare {

// The harness's preprocess(): strips, turns " [title]" into ". ", removes text in brackets on one line, and turns two
// spaces into one, in a single pass.
std::string PrepareHellaswag(std::string_view text);

// preprocess(activity + ": " + ctx_a + " " + ctx_b.capitalize())
std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b);

// Python's str.capitalize(): the first letter upper-case, the others lower-case.
std::string Capitalize(std::string_view text);

}  // namespace tare
