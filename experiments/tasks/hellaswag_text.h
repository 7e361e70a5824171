// SPDX-License-Identifier: Apache-2.0
// HellaSwag's texts as lm-evaluation-harness prepares them (lm_eval/tasks/hellaswag/utils.py): WikiHow's artifacts in
// brackets are taken out, and the activity, the sentences before and the beginning of the last one make the context.
//
// Letters change case one to one, as Unicode's simple mappings have it. Python's capitalize() differs for Greek's final
// sigma, for letters whose capital is several or a title form (ligatures, the German sharp s, digraphs), and for
// Georgian: HellaSwag is in English.
#pragma once

#include <string>
#include <string_view>

namespace tare {

// preprocess() of the harness: strips, turns " [title]" into ". ", takes out text in brackets on one line, and
// turns two spaces into one, in one pass.
std::string PrepareHellaswag(std::string_view text);

// preprocess(activity + ": " + ctx_a + " " + ctx_b.capitalize())
std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b);

// str.capitalize() of Python: the first letter large, the others small.
std::string Capitalize(std::string_view text);

}  // namespace tare
