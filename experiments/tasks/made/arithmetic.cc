// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/arithmetic.h"

#include <algorithm>

#include "experiments/text/mentions.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"

namespace tare {
namespace {

constexpr size_t kNumberEndings = 4;
constexpr size_t kMostDigits = 15;  // sums stay below 2^53, which readers of JSON numbers keep
constexpr size_t kMostSteps = 8;

// Numbers in [low, high] at this distance from each other.
std::vector<int64_t> Ladder(int64_t low, int64_t high, int64_t distance, Draws& draws) {
  const int64_t span = distance * static_cast<int64_t>(kNumberEndings - 1);
  const int64_t first = low + static_cast<int64_t>(draws.Below(static_cast<size_t>(high - span - low + 1)));
  std::vector<int64_t> ladder;
  for (size_t i = 0; i < kNumberEndings; ++i) ladder.push_back(first + static_cast<int64_t>(i) * distance);
  return ladder;
}

// A question with an answer of its own.
struct Solved {
  std::string asked, worked, brief;  // the question, its steps with the answer, and the answer alone
  std::string lead;                  // to the answer where it stands alone
};

std::string ContextOf(AnswerForm form, const std::vector<Solved>& examples, const Solved& last) {
  std::string context;
  for (const Solved& example : examples)
    context += example.asked + (form == AnswerForm::kTargets ? example.worked : example.brief) + ".\n ";
  return context + last.asked + (form == AnswerForm::kTargets ? "" : last.lead);
}

bool Mentioned(const std::vector<int64_t>& numbers, const std::string& context) {
  const TextWords words(context);
  return std::ranges::any_of(numbers, [&](int64_t number) { return words.Has(std::to_string(number)); });
}

// Solve(answer) makes a question of any answer that Ladder(draws) draws.
template <typename DrawLadder, typename Solve>
MadeItem Drawn(AnswerForm form, size_t shots, size_t rank, Draws& draws, DrawLadder ladder, Solve solve) {
  const std::vector<int64_t> numbers = ladder(draws);
  MadeItem item{.answer = std::to_string(numbers[rank])};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i != rank) item.wrong.push_back(std::to_string(numbers[i]));
  }
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    std::vector<Solved> examples;
    for (size_t i = 0; i < shots; ++i) examples.push_back(solve(ladder(draws)[draws.Below(kNumberEndings)], draws));
    item.context = ContextOf(form, examples, solve(numbers[rank], draws));
    if (!Mentioned(numbers, item.context)) return item;
  }
  // So many examples of so few numbers have all of them.
  Fail("shots: got {}, expected fewer: the answers would stand among them", shots);
}

int64_t PowerOfTen(size_t exponent) {
  int64_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// "5 + 8 = 13, 1 + 4 + 7 = 12, ...": digits from the right, after a carry if there is one.
std::string DigitSteps(int64_t a, int64_t b) {
  std::string steps;
  for (int64_t carry = 0; a > 0 || b > 0; a /= 10, b /= 10) {
    const int64_t sum = carry + a % 10 + b % 10;
    steps += Formatted("{}{} + {} = {},", carry > 0 ? Formatted(" {} + ", carry) : " ", a % 10, b % 10, sum);
    carry = sum / 10;
  }
  return steps;
}

Solved SolvedSum(int64_t total, size_t digits, AnswerForm form, Draws& draws) {
  const int64_t least = PowerOfTen(digits - 1), most = 10 * least - 1;
  const int64_t low = std::max(least, total - most), high = std::min(most, total - least);
  const int64_t a = low + static_cast<int64_t>(draws.Below(static_cast<size_t>(high - low + 1))), b = total - a;
  return {.asked = Formatted("{} + {}{}", a, b, form == AnswerForm::kTargets ? ":" : " ="),
          .worked = Formatted("{} total {}", DigitSteps(a, b), total),
          .brief = Formatted(" {}", total),
          .lead = ""};
}

constexpr const char* kPeople[] = {"Anna", "Tom", "Mary", "John", "Kate", "Peter", "Jane", "Henry", "Alice", "Edward"};
constexpr const char* kThings[] = {"apples", "books", "coins", "letters", "eggs", "roses", "shillings", "stamps"};

// One sentence of a story, from a number to the next.
struct StoryStep {
  std::string sentence, equation;
};

// Draws the step that ends at `now`, and sets it to the number before: more or fewer by at most 9, or twice as many.
StoryStep StepTo(int64_t& now, const std::string& who, const std::string& other, Draws& draws) {
  const int64_t after = now, by = 1 + static_cast<int64_t>(draws.Below(9));
  const bool twice = draws.Below(4) == 0, finds = draws.Below(2) == 0;
  if (twice && after % 2 == 0) {
    now = after / 2;
    return {Formatted(" Then {} gets as many again.", who), Formatted("{} + {} = {}", now, now, after)};
  }
  if (finds && after > by + 1) {
    now = after - by;
    return {Formatted(" {} finds {} more.", who, by), Formatted("{} + {} = {}", now, by, after)};
  }
  now = after + by;
  return {Formatted(" {} gives {} to {}.", who, by, other), Formatted("{} - {} = {}", now, by, after)};
}

Solved SolvedStory(int64_t answer, size_t steps, Draws& draws) {
  const std::vector<size_t> people = draws.Sample(std::size(kPeople), 2);
  const std::string who = kPeople[people[0]], other = kPeople[people[1]];
  const std::string things = kThings[draws.Below(std::size(kThings))];
  std::string story, equations;
  int64_t now = answer;
  for (size_t i = 0; i < steps; ++i) {
    const StoryStep step = StepTo(now, who, other, draws);
    story = step.sentence + story;
    equations = " " + step.equation + "," + equations;
  }
  return {.asked = Formatted("{} has {} {}.{} How many {} has {} now?", who, now, things, story, things, who),
          .worked = Formatted("{} so {} has {}", equations, who, answer),
          .brief = Formatted(" {} has {}", who, answer),
          .lead = Formatted(" {} has", who)};
}

// Items for every sample and size: make(size, rank of the answer, draws).
template <typename Question, typename Make>
std::vector<Json> ForSizes(const Question& question, const std::vector<size_t>& sizes, const char* key, Make make) {
  Draws draws(question.seed);
  Dealer ranks(kNumberEndings);
  ItemWriter writer(question.answers, question.seed);
  std::vector<Json> items;
  for (size_t sample = 0; sample < question.samples; ++sample) {
    ThrowIfStopped();
    for (const size_t size : sizes) {
      MadeItem item = make(size, ranks.Next(draws), draws);
      item.score = "number";
      item.keys = {{key, size}, {"shots", question.shots}, {"sample", sample}};
      items.push_back(writer.Write(item));
    }
  }
  return items;
}

}  // namespace

std::vector<Json> MakeSums(const SumQuestion& question) {
  for (const size_t digits : question.digits) {
    if (digits < 2 || digits > kMostDigits) Fail("digits: got {}, expected 2 to {}", digits, kMostDigits);
  }
  return ForSizes(question, question.digits, "digits", [&](size_t digits, size_t rank, Draws& all) {
    const auto ladder = [&](Draws& draws) {
      const int64_t least = PowerOfTen(digits - 1);
      return Ladder(2 * least, 2 * (10 * least - 1), PowerOfTen(draws.Below(digits)), draws);
    };
    return Drawn(question.answers, question.shots, rank, all, ladder,
                 [&](int64_t total, Draws& draws) { return SolvedSum(total, digits, question.answers, draws); });
  });
}

std::vector<Json> MakeStories(const StoryQuestion& question) {
  for (const size_t steps : question.steps) {
    if (steps < 1 || steps > kMostSteps) Fail("steps: got {}, expected 1 to {}", steps, kMostSteps);
  }
  return ForSizes(question, question.steps, "steps", [&](size_t steps, size_t rank, Draws& all) {
    constexpr int64_t kLeast = 10, kMost = 99;  // above all that is given and found
    const auto ladder = [](Draws& draws) {
      return Ladder(kLeast, kMost, 1 + static_cast<int64_t>(draws.Below(9)), draws);
    };
    return Drawn(question.answers, question.shots, rank, all, ladder,
                 [&](int64_t answer, Draws& draws) { return SolvedStory(answer, steps, draws); });
  });
}

}  // namespace tare
