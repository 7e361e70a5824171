// SPDX-License-Identifier: Apache-2.0
// Items of lm-evaluation-harness's common multiple-choice tasks, from the lines of their data sets
// (`datasets.load_dataset(...).to_json(FILE)`), in the harness's words (lm_eval/tasks/<task> at its commit 4e7e0d4;
// zero-shot). What a line is, its fields say:
//
//   hellaswag           activity_label, ctx_a, ctx_b, endings, label    "ACTIVITY: CTX_A Ctx_b" (hellaswag.h)
//   arc_easy, _challenge  question, choices {text, label}, answerKey    "Question: QUESTION\nAnswer:"
//   openbookqa          question_stem, choices {text, label}, answerKey "QUESTION_STEM"
//   mmlu_*              question, subject, choices, answer              the subject's description, the question, four
//                                                                       choices by letter, "Answer:"
//   piqa                goal, sol1, sol2, label                         "Question: GOAL\nAnswer:"
//   winogrande          sentence, option1, option2, answer              the sentence up to each option, and its rest
//   boolq               passage, question, label or answer              "PASSAGE\nQuestion: QUESTION?\nAnswer:" no, yes
//
// Where contexts differ and endings do not (winogrande), acc_norm is acc: the harness reports none.
#pragma once

#include "experiments/tasks/items/choice_items.h"

namespace tare {

// Sets contexts, endings, between, label and keys; item.where starts messages. Throws Error for a missing or wrong
// field, and for fields of no known form.
void ReadChoiceForm(const nlohmann::json& json, ChoiceItem& item);

}  // namespace tare
