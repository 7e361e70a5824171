// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <algorithm>
#include <set>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kNameLetters = 5;
constexpr size_t kLeastValue = 10000, kValues = 90000;  // five digits
constexpr size_t kMostStatements = 10000;  // of a haystack, so that a name or number that is new is soon drawn
constexpr size_t kGrid = 1000;             // steps of places within a haystack

std::string DrawName(Draws& draws) {
  std::string name;
  for (size_t i = 0; i < kNameLetters; ++i) name += static_cast<char>('A' + draws.Below(26));
  return name;
}

struct Chain {
  std::string value;
  std::vector<std::string> names;  // [hops + 1]
};

std::vector<Chain> DrawChains(const VariableQuestion& question, Draws& draws) {
  std::set<std::string> used;
  const auto fresh = [&](auto draw) {
    std::string text = draw();
    while (!used.insert(text).second) text = draw();
    return text;
  };
  std::vector<Chain> chains(question.chains);
  for (Chain& chain : chains) {
    chain.value = fresh([&] { return std::to_string(kLeastValue + draws.Below(kValues)); });
    for (size_t i = 0; i <= question.hops; ++i) chain.names.push_back(fresh([&] { return DrawName(draws); }));
  }
  return chains;
}

// The statements of all chains in their order in the text; a chain's statements keep the order of the chain.
std::vector<HiddenText> Statements(const std::vector<Chain>& chains, const std::vector<double>& depths, Draws& draws) {
  std::vector<HiddenText> statements;
  for (const size_t c : draws.Sample(chains.size(), chains.size())) {
    const std::vector<std::string>& names = chains[c].names;
    std::vector<double> places{depths[c]};
    for (size_t i = 1; i < names.size(); ++i)
      places.push_back(depths[c] + (1 - depths[c]) * static_cast<double>(draws.Below(kGrid + 1)) / kGrid);
    std::ranges::sort(places);
    for (size_t i = 0; i < names.size(); ++i)
      statements.push_back(
          {places[i], Formatted("VAR {} = {}.", names[i], i == 0 ? chains[c].value : "VAR " + names[i - 1])});
  }
  std::ranges::stable_sort(statements, {}, &HiddenText::place);
  return statements;
}

// The item that asks about the first chain.
MadeItem Asked(const VariableQuestion& question, const std::vector<Chain>& chains) {
  const Chain& chain = chains[0];
  if (question.grid.answers == AnswerForm::kTargets)
    return {.context = Formatted("\n Find all variables that have the value {}. They are", chain.value),
            .answer = Listed(chain.names, ", ", {}, " and "),
            .listed = chain.names};
  MadeItem item{.context = Formatted("\n What is the value of VAR {}? It is", chain.names.back()),
                .answer = chain.value};
  for (size_t c = 1; c < chains.size(); ++c) item.wrong.push_back(chains[c].value);
  return item;
}

}  // namespace

std::vector<Json> MakeVariables(const VariableQuestion& question, const Haystack& haystack,
                                const Tokenizer& tokenizer) {
  if (question.grid.answers == AnswerForm::kChoices && question.chains < 2)
    Fail("chains: got {}, expected at least 2: the others' numbers are the wrong endings; try targets",
         question.chains);
  if (question.chains * (question.hops + 1) > kMostStatements)
    Fail("hops: got {} in {} chains, expected at most {} assignments in all", question.hops, question.chains,
         kMostStatements);
  Draws draws(question.grid.seed);
  DepthDealer dealer(question.grid.depths, question.chains);
  ItemWriter writer(question.grid.answers, question.grid.seed);
  return ForGrid(question.grid, [&](size_t sample, int64_t length, size_t turn) {
    const std::vector<Chain> chains = DrawChains(question, draws);
    const std::vector<double> depths = dealer.At(turn, draws);
    const std::vector<HiddenText> statements = Statements(chains, depths, draws);
    MadeItem item = Asked(question, chains);
    item.context = Filled(haystack, length, item.Endings(), tokenizer, draws, "variables",
                          [&](Haystack::Words words) { return WithHidden(words, statements) + item.context; });
    item.keys = {{"depth", depths[0]},
                 {"length", length},
                 {"chains", question.chains},
                 {"hops", question.hops},
                 {"sample", sample}};
    item.stop = {"\n", "."};
    return std::vector{writer.Write(item)};
  });
}

}  // namespace tare
