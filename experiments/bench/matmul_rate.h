// SPDX-License-Identifier: Apache-2.0
// The yardstick for forward passes: the rate of oneDNN's large matmul on all threads, with weights in the layout that
// it prefers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/linear/projector.h"

namespace tare {

// A prepared product x [rows, in] W [in, out] in f32, or bf16 factors with f32 sums.
class MatmulRate {
 public:
  MatmulRate(Math math, int64_t rows, int64_t out, int64_t in);
  ~MatmulRate();
  MatmulRate(const MatmulRate&) = delete;
  MatmulRate& operator=(const MatmulRate&) = delete;

  double SecondsOnce();                // of one execution
  std::string Implementation() const;  // the name of oneDNN's
  double Flop() const { return flop_; }

 private:
  struct Product;
  std::unique_ptr<Product> product_;
  double flop_;
};

}  // namespace tare
