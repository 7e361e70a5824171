// SPDX-License-Identifier: Apache-2.0
// What every maker makes: a context, its true answer and wrong ones, in one of two written forms.
//
//   choices   {"ctx", "endings", "label", keys ...}           for the choice task (experiments/tasks/items)
//   targets   {"prompt", "targets", "stop", "score", keys ...}   for answers that a model writes: the true one, where a
//                                                             writer would end it, and what is right: "exact" (the
//                                                             target), "contains" (it occurs), "all" (every target of
//                                                             a list occurs) or "number" (the last one is the target's)
//
// Nothing but the context tells the answer of a good item. A maker therefore draws all endings of an item alike, and
// which of them is true last. Where a count could differ by chance (the place of the true ending, its class, its
// letter), it is dealt: in rounds, each with every value once, in an order of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/significance/draws.h"
#include "quant/file/json_value.h"

namespace tare {

// Deals 0 .. n - 1: after any number of values each was dealt equally often, or once more.
class Dealer {
 public:
  explicit Dealer(size_t n) : n_(n) {}
  size_t Next(Draws& draws);

 private:
  size_t n_;
  std::vector<size_t> left_;
};

// Every one of several things takes each depth of a list once in a round, in an order of its own; the first takes them
// as listed. So each stands at every depth equally often, and which stands before another tells nothing.
class DepthDealer {
 public:
  DepthDealer(std::vector<double> depths, size_t things) : depths_(std::move(depths)), orders_(things) {}
  // The depths of all things at turn 0 .. depths - 1 of a round; turn 0 begins a new one.
  std::vector<double> At(size_t turn, Draws& draws);

 private:
  std::vector<double> depths_;
  std::vector<std::vector<size_t>> orders_;  // [things][turns]
};

// Throws Error for a depth that is not 0 to 1.
void CheckDepths(const std::vector<double>& depths);

enum class AnswerForm { kChoices, kTargets };
// Parses "choices" or "targets"; throws Error.
AnswerForm ParseAnswerForm(const std::string& name);

struct MadeItem {
  std::string context, answer;
  std::vector<std::string> wrong;
  Json keys;
  std::vector<std::string> stop = {"\n"};
  std::vector<std::string> listed;  // what the answer lists, if more than one
  std::string score = "exact";      // of an answer that lists nothing

  std::vector<std::string> Endings() const;  // the answer first
};

// Deals the places of true endings. Their draws are their own, so that both forms have the same contexts.
class ItemWriter {
 public:
  ItemWriter(AnswerForm form, uint64_t seed) : form_(form), draws_(~seed) {}
  Json Write(const MadeItem& item);

 private:
  AnswerForm form_;
  Draws draws_;
  std::map<size_t, Dealer> places_;  // by number of endings
};

// "a", "a and b", "a, b and c".
std::string Listed(const std::vector<std::string>& parts);

}  // namespace tare
