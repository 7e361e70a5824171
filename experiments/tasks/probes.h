// SPDX-License-Identifier: Apache-2.0
// What guesses score on multiple-choice items without a model: if one of them does better or worse than chance, an
// accuracy near that guess shows no reading. Chance is the mean of 1 / (endings of the item).
//
//   constant place   the best single place of the right ending, always chosen
//   constant ending  the best single text, chosen wherever it is offered, else chance
//   bag of words     the ending of whose words the largest share stands in the context
//   first mention    the ending that the context mentions first; last mention: whose last mention is the latest
//   most frequent    the ending that the context mentions most often
//   longest          the ending with the most characters
//   closest          the ending that agrees with the others in most places: an answer whose changes are the others
//
// Words are runs of letters and digits, without case; a mention is all words of an ending in a row. Ties share items.
//
// Intervals are those of accuracies (BySample): Wilson's, or over samples. p is of the difference from chance. With d
// an item's score minus chance, and v the variance of d if all its endings are as likely right,
//
//   z = sum d / sqrt(max(sum over samples of (sum of d in it)^2, sum v)),
//
// which is at most sqrt(samples): few samples show nothing. For the constants, which are the best of several, p is
// multiplied by how many there are (Bonferroni); all are then corrected by Holm.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/inference.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"

namespace tare {

// Words of a text, and where they are mentioned in another. A word is a run of ASCII letters, digits and bytes of other
// characters, without case: "1234." has the word 1234, "Harriet's" the words harriet and s.
struct Mentions {
  size_t count = 0, first = 0, last = 0;  // words before the first and the last mention
};

class TextWords {
 public:
  explicit TextWords(std::string_view text);

  const std::vector<std::string>& all() const { return words_; }
  bool Has(std::string_view word) const;
  // All words of `phrase` in a row; none for a phrase without words.
  Mentions Find(const TextWords& phrase) const;

 private:
  std::vector<std::string> words_, sorted_;
};

struct Probe {
  std::string guess, choice;  // choice: the best place (from 1) or ending of a constant guess
  double score = 0;
  Interval interval;
  double z = 0;             // of the difference from chance
  std::optional<double> p;  // corrected; below kLevel: the guess differs from chance

  std::string Title() const;  // with a choice that is short
};

struct ProbeReport {
  size_t items = 0, samples = 0;
  std::optional<double> chance;  // where there is something to choose from
  std::vector<Probe> probes;
};

class Probes {
 public:
  void Add(const ChoiceItem& item);
  ProbeReport Report() const;  // the report on the items, of which there is at least one

 private:
  // A guess at one item: its score, and the variance v.
  struct Outcome {
    double score, variance;
  };
  struct Asked {
    size_t label = 0;
    std::vector<std::string> endings;
    std::vector<Outcome> outcomes;  // of kGuesses, in order
    double Chance() const { return 1 / static_cast<double>(endings.size()); }
  };
  using TextsOf = std::vector<std::string> (*)(const Asked& asked);  // of each ending

  template <typename OutcomeOf>
  Probe Scored(const char* guess, OutcomeOf outcome) const;
  Probe Constant(const char* guess, TextsOf texts_of) const;

  std::vector<Asked> asked_;
  std::vector<Json> records_;  // with the items' keys
};

// For items whose records have their keys (BySample): their samples, and a guess with these scores, without z and p.
size_t CountSamples(const std::vector<Json>& records);
Probe Measured(const char* guess, const std::vector<Json>& records, const std::vector<double>& scores);

// The report on a file of such items, or of items with targets, by its first line.
ProbeReport ProbeItems(const std::filesystem::path& file);
// The report on a file of items with targets (target_probes.cc).
ProbeReport ProbeTargets(const std::filesystem::path& file);

// {"schema": "tare.probes/1", "items", "samples", "chance", "probes": [{"guess", "choice", "score", "low", "high",
// "p"}]}
Json ProbeJson(const ProbeReport& report);
std::string ProbeText(const ProbeReport& report);  // a table, and what it says

}  // namespace tare
