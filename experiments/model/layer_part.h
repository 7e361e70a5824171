// SPDX-License-Identifier: Apache-2.0
// A part of a layer's steps: from the products of one input to where another is known. A caller that takes many batches
// through a layer, and changes weights between two inputs of it, thereby runs no step twice.
//
//   first pass    until o_proj.in     norm, q, k, v, attention; keeps what o_proj reads
//   second pass   from o_proj.in      o_proj, and so on: the steps before it are left out
//
// Steps leave out their work while Runs is false. What a part leaves behind is the residual stream and, of families
// with shared keys, values or memories, those; what it needs besides is the input, which the caller keeps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/plan/site.h"

namespace tare {

class LayerPart {
 public:
  // from: empty is the first step; given is then the input of that site, [rows, columns]. until: empty is the last
  // step. kept: becomes the input that the part ends before, and may be `given`; null: it is not kept.
  LayerPart(std::optional<Site> from, const AlignedBuffer<float>* given, std::optional<Site> until,
            AlignedBuffer<float>* kept)
      : from_(from), given_(given), until_(until), kept_(kept), runs_(!from) {
    TARE_CHECK(!from || given != nullptr);
  }

  bool Runs() const { return runs_; }

  // Products of x, `count` values, come now, whose inputs are these sites: where the part begins, x becomes what is
  // given.
  void Begin(std::span<const Site> sites, float* x, size_t count) {
    if (runs_ || !from_ || !std::ranges::contains(sites, *from_)) return;
    TARE_CHECK(given_->size() == count);
    std::ranges::copy(given_->span(), x);
    from_.reset();
    runs_ = true;
  }
  bool EndsBefore(std::span<const Site> sites) const {
    return runs_ && until_ && std::ranges::contains(sites, *until_);
  }
  // Visitors have seen x: no later step runs.
  void End(const float* x, size_t count) {
    runs_ = false;
    if (kept_ == nullptr) return;
    kept_->Reset(count);
    std::copy_n(x, count, kept_->data());
  }

 private:
  std::optional<Site> from_;
  const AlignedBuffer<float>* given_;
  std::optional<Site> until_;
  AlignedBuffer<float>* kept_;
  bool runs_;
};

}  // namespace tare
