// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/compare/model_outliers.h"

#include "experiments/observe/outlier_report.h"
#include "experiments/passes/model_input.h"
#include "experiments/studies/compare/compare_question.h"
#include "quant/base/formatted.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"

namespace tare {
namespace {

std::filesystem::path LinesIn(const std::filesystem::path& folder) { return folder / "outliers.jsonl"; }

// All that the figures depend on.
Json KeyOf(const Model& model, const TokenInput& input, const SweepOptions& options) {
  const WindowOptions& windows = options.windows;
  Json key{{"weights", model.files().ContentHash()},
           {"input", input.sha256},
           {"window", windows.window},
           {"tokens", windows.tokens},
           {"limit", windows.limit},
           {"skip_first", kSkipFirst},
           {"math", options.math == Math::kBf16 ? "bf16" : "f32"}};
  if (windows.TakesPart()) key["from"] = Name(windows.from);
  if (input.in_windows) key["windows_begin"] = "lines";
  for (const auto& [name, hash] : ModelFileHashes(model.folder())) key[name] = hash;
  return key;
}

// The result of an earlier run; null if it was another measurement.
Json Measured(const RecordLines& lines, size_t model, const Json& key) {
  const auto found = std::ranges::find(lines.records, model + 1, &Record::number);
  return found != lines.records.end() && found->object["key"] == key ? found->object["figures"] : Json();
}

}  // namespace

RecordLines EarlierOutliers(const SweepOptions& options) {
  RecordLines earlier = ReadRecords(LinesIn(options.folder), OutlierRecords());
  if (!earlier.damaged.empty()) Notice(DamageText(earlier) + "; what was there is measured again");
  return earlier;
}

std::vector<Json> OutliersOf(const SweepOptions& options, const RecordLines& earlier, const CellStarting& starting) {
  std::vector<Json> models;
  std::string lines;
  for (const std::filesystem::path& folder : options.models) {
    Model model(folder, options.math);
    const TokenInput input = LoadModelInput(TextOf(options.tasks), model, options.windows.NeededOf(model.config()));
    const Json key = KeyOf(model, input, options);
    Json figures = Measured(earlier, models.size(), key);
    if (figures.is_null())
      figures =
          MeasureOutliers(model, input, CutDisjoint(input, model.config(), options.windows), kSkipFirst,
                          starting(model.Name() + " outliers", std::ssize(options.models) - std::ssize(models) - 1));
    lines += OutlierLine(key, figures) + "\n";
    models.push_back(std::move(figures));
  }
  WriteFileAtomically(LinesIn(options.folder), lines);
  return models;
}

}  // namespace tare
