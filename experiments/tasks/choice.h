// SPDX-License-Identifier: Apache-2.0
// Multiple choice by log-likelihood, scored as lm-evaluation-harness scores HellaSwag: the ending with the largest sum
// of log-probabilities is the model's answer (acc), or with the largest sum divided by the ending's characters
// (acc_norm). The standard error of an accuracy is s / sqrt(n), s the sample standard deviation of the 0/1 outcomes.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/tasks/ending_scores.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kChoiceTask;  // choice=ITEMS.jsonl

struct ChoiceRecord {
  size_t line = 0;  // in the items' file, from 1
  int label = 0;
  std::vector<double> log_likelihoods;  // one per ending, nats
  std::vector<size_t> characters;       // one per ending
  Json keys;                            // of the item
  int answer = 0, answer_norm = 0;      // the best ending; the first of equals

  bool Correct() const { return answer == label; }
  bool CorrectNorm() const { return answer_norm == label; }
};

// As ScoreEndings.
std::vector<ChoiceRecord> MeasureChoice(Model& model, SiteVisitors visitors, ContextSharing sharing,
                                        const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer,
                                        std::optional<int32_t> bos, const std::optional<CachePlan>& cache,
                                        const Progress& progress);

// n, acc, acc_norm, their standard errors (as the harness has them, of independent items) and outcomes; where items
// share samples (tasks/groups.h) how many of each are right (sample_right, sample_right_norm) and there
// (sample_items); and each record with its fields' names, its keys, if any, as "item".
TaskResult Accuracies(const std::vector<ChoiceRecord>& records);
// The accuracy that figures and findings report of such items ("reported" in the task's result): acc_norm where endings
// after one context are of several words, as lm-evaluation-harness reports it of HellaSwag, ARC, OpenBookQA and PIQA;
// of letters, numbers, single words and contexts that differ, acc.
const char* ReportedAccuracy(const std::vector<ChoiceItem>& items);

}  // namespace tare
