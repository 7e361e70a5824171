// SPDX-License-Identifier: Apache-2.0
// What guesses score on items whose answers a model writes, {"prompt", "targets"}: exact matches with any target, or
// with "score": "all" with the only one.
// Nothing is chosen from, so there is no chance to compare with:
//
//   constant target   the most frequent target of all
//   first number      of the prompt; last number; most frequent number (of equals, each scores its share)
//   in the prompt     no guess but a ceiling: how often all words of a target (of "all": of every one) stand in the
//                     prompt, to be copied
#pragma once

#include <filesystem>

#include "experiments/tasks/probes.h"

namespace tare {

ProbeReport ProbeTargets(const std::filesystem::path& file);

}  // namespace tare
