// SPDX-License-Identifier: Apache-2.0
// Uses tare::experiments: reads a configuration, and expects the refusal of an invalid one.
#include <cstdio>

#include <tare/experiments/model/config/config.h>
#include <tare/quant/base/message.h>

int main() {
  try {
    tare::ParseConfig("{\"model_type\": \"no such family\"}", "here");
  } catch (const tare::Error& error) {
    return 0;
  }
  return std::puts("use_experiments: got no refusal"), 1;
}
