// SPDX-License-Identifier: Apache-2.0
// Each kernel of `tare bench` against the machine's limits: needed operations per second over those per byte.
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"

namespace tare {
namespace {

struct Kernel {
  std::string name, work, size, plan;  // "tare", "attention, v1"
  int threads = 1;
  double operations = 0, bytes = 0, seconds = 0;  // least of each
  double peak = 0, read = 0;                      // Gop/s, GB/s
  double error = 0;
  double spread = NAN, ns_per_pair = NAN, x_onednn = NAN;  // NaN where the file does not have it
};

double NumberIn(const Json& c, const char* key) { return c.contains(key) ? NumberAt(c, key) : NAN; }

// What every case says of itself.
Kernel KernelOf(const Json& c, const std::string& name, const std::string& work, const std::string& size) {
  return {.name = name,
          .work = work,
          .size = size,
          .plan = c.at("plan"),
          .threads = c.at("threads"),
          .seconds = NumberAt(c, "seconds"),
          .error = NumberAt(c, "rel_l2"),
          .spread = NumberIn(c, "spread"),
          .ns_per_pair = NumberIn(c, "ns_per_pair"),
          .x_onednn = NumberIn(c, "x_onednn")};
}

std::string Count(double n, const char* noun) { return Counted(static_cast<int64_t>(n), noun); }

// Q, K, V and the output once, in f32. A differential head has two maps: V1 with values of twice the width.
Kernel AttentionOf(const Json& c, const Json& roofline) {
  const std::string name = c.at("kernel"), family = c.at("family");
  const double maps = family == "standard" ? 1 : 2, wide = family == "v1" ? 2 : 1;
  const double d = NumberAt(c, "d"), heads = NumberAt(c, "heads"), kv = NumberAt(c, "kv_heads");
  const double rows = NumberAt(c, "n"), keys = NumberAt(c, "keys");
  Kernel kernel =
      KernelOf(c, c.value("name", name), "attention, " + family,
               Formatted("{}, {}, {} of {:.0f}", Count(rows, "query"), Count(keys, "key"), Count(heads, "head"), d));
  kernel.operations = NumberAt(c, "executed_gops") * kernel.seconds * 1e9;
  kernel.bytes = 4 * d * (rows * heads * (maps + wide) + keys * kv * (maps + wide));
  const bool codes = name == "tare" || name.ends_with("int8");
  kernel.peak = NumberAt(c, codes ? "u8s8_gops" : name == "tare-bf16" ? "bf16_gflops" : "f32_gflops");
  kernel.read = NumberAt(roofline, "read_gbps");
  return kernel;
}

// The codes of the weights once, and activations in f32.
Kernel LinearOf(const Json& c, const Json& roofline) {
  const double rows = NumberAt(c, "rows"), out = NumberAt(c, "out"), in = NumberAt(c, "in");
  Kernel kernel = KernelOf(c, "tare", "linear", Formatted("{} of {:.0f} to {:.0f}", Count(rows, "row"), in, out));
  kernel.operations = 2 * rows * out * in;
  kernel.bytes = out * in * NumberAt(c, "bits_per_weight") / 8 + 4 * rows * (in + out);
  kernel.peak = NumberAt(roofline, "u8s8_gops");
  kernel.read = NumberAt(roofline, "read_gbps");
  return kernel;
}

// The bytes of the cache once, and the products of one token with it. Reading is the only limit.
Kernel DecodeOf(const Json& c) {
  const std::string family = c.at("family");
  const double maps = family == "standard" ? 1 : 2, wide = family == "v1" ? 2 : 1;
  Kernel kernel = KernelOf(c, c.at("kernel"), "decode, " + family,
                           Formatted("{}, {} of {}, {}", Counted(c.at("n"), "key"), Counted(c.at("heads"), "head"),
                                     c.at("d").dump(), Counted(c.at("batch"), "sequence")));
  kernel.operations =
      2 * NumberAt(c, "n") * NumberAt(c, "d") * NumberAt(c, "heads") * NumberAt(c, "batch") * (maps + wide);
  kernel.bytes = NumberAt(c, "bytes");
  kernel.peak = INFINITY;
  kernel.read = NumberAt(c, "read_gbps");
  return kernel;
}

std::vector<Kernel> KernelsOf(const Json& bench) {
  std::vector<Kernel> kernels;
  const std::string kind = bench.value("bench", "attention");
  for (const Json& c : bench.at("cases")) {
    kernels.push_back(kind == "decode"   ? DecodeOf(c)
                      : kind == "linear" ? LinearOf(c, bench.at("roofline"))
                                         : AttentionOf(c, bench.at("roofline")));
    // The bench withholds a share of a roof that moved while it ran.
    if (c.contains("roofline_fraction") && c["roofline_fraction"].is_null()) kernels.back().peak = NAN;
  }
  return kernels;
}

// NaN if the run did not measure it (benches write 0 then).
double RoofOf(const Kernel& k) {
  return k.peak > 0 && k.read > 0 ? std::min(k.peak, k.read * k.operations / k.bytes) : NAN;
}

double SpeedOf(const Kernel& k) { return k.seconds > 0 ? k.operations / k.seconds * 1e-9 : NAN; }

Columns<Kernel> KernelColumns() {
  return {{{"kernel", "kernel"}, &Kernel::name},
          {{"work", "of"}, &Kernel::work},
          {{"size", "size"}, &Kernel::size},
          {{"plan", "plan"}, &Kernel::plan},
          {{"threads", "threads"}, &Kernel::threads},
          {{"intensity", "operations per byte"}, [](const Kernel& k) { return k.operations / k.bytes; }},
          {{"speed", "Gop/s"}, SpeedOf},
          {{"roof", "roof (Gop/s)"}, RoofOf},
          {{"share", "share of the roof"}, [](const Kernel& k) { return SpeedOf(k) / RoofOf(k); }},
          {{"error", "relative error (L2)"}, &Kernel::error},
          {{"ns_per_pair", "ns per pair"}, &Kernel::ns_per_pair},
          {{"spread", "spread"}, &Kernel::spread},
          {{"x_onednn", "x oneDNN"}, &Kernel::x_onednn}};
}

}  // namespace

std::vector<FigureData> RooflineOfKernels(const Material& material) {
  FigureData figure = FigureOfKind("roofline");
  std::vector<Kernel> all;
  material.ForEach("tare.bench/1", [&](const Json& json) {
    for (Kernel& kernel : KernelsOf(json)) all.push_back(std::move(kernel));
    for (const Json& finding : json.value("findings", Json::array())) figure.findings.push_back(finding);
  });
  if (all.empty()) return {};
  figure.table = TableOf(KernelColumns(), all);
  if (const auto bare = std::ranges::count_if(all, [](const Kernel& k) { return std::isnan(RoofOf(k)); }); bare > 0)
    figure.missing.push_back(Formatted("the roof of {} of {}: it moved while the kernel ran, or was not measured", bare,
                                       Counted(std::ssize(all), "kernel")));
  const Json& best =
      std::ranges::max(figure.table.rows, {}, [](const Json& row) { return NumberOr(row, "share", -INFINITY); });
  if (best.at("share").is_null()) return {figure};
  const auto text = [&](const char* column) { return best.at(column).get<std::string>(); };
  figure.findings.push_back(
      Formatted("The kernel nearest to its roof is {} in {} ({}{}): it reaches {:.0f} % of {:.0f} Gop/s.",
                text("kernel"), text("work"), text("size"), text("plan").empty() ? "" : ", " + text("plan"),
                100 * NumberAt(best, "share"), NumberAt(best, "roof")));
  return {figure};
}

}  // namespace tare
