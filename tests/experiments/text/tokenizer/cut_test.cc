// SPDX-License-Identifier: Apache-2.0
// Part by part against the library's rule on a whole list, for every behaviour, with empty parts and equal neighbours.
#include "experiments/text/tokenizer/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::cut_test {
namespace {

using pipeline::Behaviour;
using pipeline::Cut;
using pipeline::Part;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Range = std::pair<size_t, size_t>;

// tokenizers/src/tokenizer/normalizer.rs, split: MergedWithNext goes from the end.
std::vector<Range> WholeList(std::vector<Part> parts, Behaviour behaviour) {
  std::vector<Part> cut;
  const bool backwards = behaviour == Behaviour::kMergedWithNext;
  if (backwards) std::ranges::reverse(parts);
  bool previous = false;
  for (const Part& part : parts) {
    const bool joins = behaviour == Behaviour::kContiguous
                           ? part.is_match == previous
                           : part.is_match && !previous && behaviour != Behaviour::kIsolated;
    previous = part.is_match;
    if (behaviour == Behaviour::kRemoved) {
      if (!part.is_match) cut.push_back(part);
    } else if (!joins || cut.empty()) {
      cut.push_back(part);
    } else if (backwards) {
      cut.back().begin = part.begin;
    } else {
      cut.back().end = part.end;
    }
  }
  if (backwards) std::ranges::reverse(cut);
  std::vector<Range> ranges;
  for (const Part& part : cut) {
    if (part.begin != part.end) ranges.emplace_back(part.begin, part.end);
  }
  return ranges;
}

std::vector<Range> PartByPart(const std::vector<Part>& parts, Behaviour behaviour) {
  std::vector<Range> ranges;
  Cut cut(behaviour, [&](const Part& part) { ranges.emplace_back(part.begin, part.end); });
  for (const Part& part : parts) cut.Add(part);
  cut.End();
  return ranges;
}

constexpr Behaviour kEach[] = {Behaviour::kRemoved, Behaviour::kIsolated, Behaviour::kMergedWithPrevious,
                               Behaviour::kMergedWithNext, Behaviour::kContiguous};

TEST(Cut, IsTheRuleOnAWholeList) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Part> parts;
    for (size_t at = 0, count = random() % 8; parts.size() < count;) {
      const size_t end = at + random() % 3;
      parts.push_back({at, end, random() % 2 == 0});
      at = end;
    }
    for (const Behaviour behaviour : kEach) EXPECT_EQ(PartByPart(parts, behaviour), WholeList(parts, behaviour));
  }
}

TEST(Cut, BehavioursByName) {
  EXPECT_EQ(pipeline::ParseBehaviour("MergedWithNext", "t"), Behaviour::kMergedWithNext);
  EXPECT_THAT(Call([] { pipeline::ParseBehaviour("Cut", "t"); }),
              ThrowsMessage<Error>(HasSubstr("t: behavior: got \"Cut\", expected Removed, Isolated")));
}

}  // namespace
}  // namespace tare::cut_test
