// SPDX-License-Identifier: Apache-2.0
#include "tools/stats_tensors.h"

#include "experiments/observe/captured/captured_statistics.h"
#include "quant/base/formatted.h"
#include "quant/base/notice.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/run_options.h"
#include "tools/stats_files.h"

namespace tare {
namespace {

void SayWhatIsLeftOut(const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += Formatted(" and {} more", names.size() - kShown);
  Notice("skipped, no matching site: " + text);
}

}  // namespace

void CollectTensors(const TensorsOptions& options, StatisticsOptions statistics) {
  std::vector<std::string> inputs = options.files;
  inputs.insert(inputs.end(), {options.axes, options.spans});
  const std::vector<AtomicFile> claims = ClaimFiles(inputs, {options.json, options.out, options.out + ".part"});
  const CapturedLayout layout = options.axes.empty() ? CapturedLayout() : CapturedLayout::Load(options.axes);
  const CapturedInput input = LoadCaptured({options.files.begin(), options.files.end()}, layout);
  SayWhatIsLeftOut(input.left_over);
  if (!options.spans.empty()) statistics.spans = MarkedSpans::Load(options.spans, input.lengths);
  const std::string name =
      options.name.empty() ? std::filesystem::path(options.files.front()).stem().string() : options.name;
  const auto set = [&] {
    ProgressLine line("");
    line.Begin(name, 0, 1);
    return CollectCaptured(input, name, statistics, TARE_VERSION, options.out, line.Callback());
  }();
  ShowOverview(set, options.out, options.json);
}

}  // namespace tare
