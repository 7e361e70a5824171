// SPDX-License-Identifier: Apache-2.0
// The statistics file of arrays that are fed batch by batch, as tare stats --tensors writes it.
#include <optional>

#include "experiments/observe/captured/captured_statistics.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

class SiteStream {
 public:
  SiteStream(const std::string& name, const std::string& axes, const std::string& sites, const std::string& formats,
             const std::string& calibrate, int64_t skip_first, int threads) {
    InTurn(threads, [&](Turn&) {
      threads_ = Threads();
      if (!axes.empty()) layout_ = CapturedLayout::Load(axes);
      stream_.emplace(
          name, layout_,
          StatisticsOptions{.sites = sites, .formats = formats, .calibrate = calibrate, .skip_first = skip_first},
          TARE_VERSION);
    });
  }

  void Feed(const std::string& name, nb::handle object) {
    const AnyArray array = ArrayOf(object, name);
    const DType type = FileType(array, name.c_str());
    if (!IsContiguous(array))
      Fail("{}: got gaps between its values, expected none; try numpy.ascontiguousarray(x)", name);
    const std::span values(static_cast<const std::byte*>(array.data()), array.nbytes());
    const std::vector<int64_t> shape = ShapeOf(array);
    if (name != "input_ids" && name != "attention_mask" && !layout_.Find({name, type, shape}, "feed"))
      Fail("{}: got an array of no site, expected one that plans have; try feed('q', layer, array)", name);
    InTurn(threads_, [&](Turn&) { stream_->Add({name, type, shape}, values); });
  }

  void Finish(const std::string& out) {
    InTurn(threads_, [&](Turn&) { stream_->Finish(out); });
  }

 private:
  int threads_ = 0;  // the same for every batch
  CapturedLayout layout_;
  std::optional<CapturedStream> stream_;
};

}  // namespace

void AddStatistics(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<SiteStream>(module, "Stream", "Collects arrays for a statistics file: see tare.Statistics.")
      .def(nb::init<std::string, std::string, std::string, std::string, std::string, int64_t, int>(), "name"_a,
           "axes"_a, "sites"_a, "formats"_a, "calibrate"_a, "skip_first"_a, "threads"_a)
      .def("feed", &SiteStream::Feed, "name"_a, "array"_a, "Adds values under the name SITE.LAYER; they are copied.")
      .def("finish", &SiteStream::Finish, "out"_a, "Writes the file. Call it once, at the end.");
}

}  // namespace tare
