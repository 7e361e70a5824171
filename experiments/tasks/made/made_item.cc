// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/made_item.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr std::string_view kAnswerForms[] = {"choices", "targets"};

std::vector<size_t> AllBelow(size_t n) {
  std::vector<size_t> all(n);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

}  // namespace

size_t Dealer::Next(Draws& draws) {
  if (left_.empty()) {
    left_ = AllBelow(n_);
    draws.Shuffle(left_);
  }
  const size_t next = left_.back();
  left_.pop_back();
  return next;
}

std::vector<double> DepthDealer::At(size_t turn, Draws& draws) {
  std::vector<double> depths;
  for (size_t thing = 0; thing < orders_.size(); ++thing) {
    std::vector<size_t>& order = orders_[thing];
    if (turn == 0) {
      order = AllBelow(depths_.size());
      if (thing > 0) draws.Shuffle(order);
    }
    depths.push_back(depths_[order[turn]]);
  }
  return depths;
}

void CheckDepths(const std::vector<double>& depths) {
  for (const double depth : depths) {
    if (!(depth >= 0 && depth <= 1)) Fail("depths: got {}, expected 0 to 1", depth);
  }
}

AnswerForm ParseAnswerForm(const std::string& name) {
  const auto at = std::ranges::find(kAnswerForms, name);
  if (at != std::end(kAnswerForms)) return static_cast<AnswerForm>(at - kAnswerForms);
  Fail("answers: got '{}', expected choices or targets", name);
}

std::vector<std::string> MadeItem::Endings() const {
  std::vector<std::string> endings{answer};
  endings.insert(endings.end(), wrong.begin(), wrong.end());
  return endings;
}

Json ItemWriter::Write(const MadeItem& item) {
  Json json;
  if (form_ == AnswerForm::kTargets) {
    const bool one = item.listed.size() < 2;
    json = {{"prompt", item.context},
            {"targets", one ? std::vector{item.answer} : item.listed},
            {"stop", item.stop},
            {"score", one ? item.score : "all"}};
  } else {
    std::vector<std::string> endings = item.wrong;
    draws_.Shuffle(endings);
    Dealer& places = places_.try_emplace(endings.size() + 1, endings.size() + 1).first->second;
    const size_t label = places.Next(draws_);
    endings.insert(endings.begin() + static_cast<ptrdiff_t>(label), item.answer);
    json = {{"ctx", item.context}, {"endings", endings}, {"label", label}};
  }
  json.update(item.keys);
  return json;
}

std::string Listed(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

}  // namespace tare
