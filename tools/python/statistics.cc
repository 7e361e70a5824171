// SPDX-License-Identifier: Apache-2.0
// The statistics file of arrays in files: what tare stats --tensors does.
#include <nanobind/stl/vector.h>

#include "experiments/captured/captured_statistics.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

void Collect(const std::vector<std::string>& files, const std::string& out, const std::string& name,
             const std::string& axes, const std::string& sites, const std::string& formats,
             const std::string& calibrate, int threads) {
  const nb::gil_scoped_release released;
  const Turn turn(threads);
  const CapturedLayout layout = axes.empty() ? CapturedLayout() : CapturedLayout::Load(axes);
  const CapturedInput input = LoadCaptured({files.begin(), files.end()}, layout);
  const StatisticsOptions options{.sites = sites, .formats = formats, .calibrate = calibrate};
  CollectCaptured(input, name, options, TARE_VERSION, out, {});
}

}  // namespace

void AddStatistics(nb::module_& module) {
  using namespace nb::literals;
  module.def("collect", Collect, "files"_a, "out"_a, "name"_a, "axes"_a, "sites"_a, "formats"_a, "calibrate"_a,
             "threads"_a, "tare stats --tensors FILES --out OUT: see tare.Statistics.");
}

}  // namespace tare
