// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/matmul_rate.h"

#include <omp.h>

#include <algorithm>
#include <unordered_map>

#include <dnnl.hpp>

#include "experiments/bench/timing.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"

namespace tare {

struct MatmulRate::Product {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  std::string implementation;
  std::unordered_map<int, dnnl::memory> arguments;
};

MatmulRate::MatmulRate(Math math, int64_t rows, int64_t out, int64_t in) try
    : product_(std::make_unique<Product>()),
      flop_(2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in)) {
  using dnnl::memory;
  RequireRoom();
  omp_set_num_threads(Threads());
  const auto type = math == Math::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc x({rows, in}, type, memory::format_tag::ab), w({in, out}, type, memory::format_tag::any);
  const memory::desc y({rows, out}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc descriptor(product_->engine, x, w, y);
  product_->primitive = dnnl::matmul(descriptor);
  product_->implementation = descriptor.impl_info_str();
  const auto filled = [&](const memory::desc& desc) {
    memory m(desc, product_->engine);
    // 0x3f803f80: pairs of 1.0 in bf16, one 1.002 in f32.
    std::fill_n(static_cast<uint32_t*>(m.get_data_handle()), desc.get_size() / 4, 0x3f803f80u);
    return m;
  };
  product_->arguments = {{DNNL_ARG_SRC, filled(descriptor.src_desc())},
                         {DNNL_ARG_WEIGHTS, filled(descriptor.weights_desc())},
                         {DNNL_ARG_DST, filled(descriptor.dst_desc())}};
} catch (const dnnl::error& error) {
  Fail("oneDNN matmul {} x {} x {}: {}; is memory short?", rows, out, in, error.what());
}

MatmulRate::~MatmulRate() = default;

std::string MatmulRate::Implementation() const { return product_->implementation; }

double MatmulRate::SecondsOnce() {
  const double start = Seconds();
  product_->primitive.execute(product_->stream, product_->arguments);
  product_->stream.wait();
  return Seconds() - start;
}

}  // namespace tare
