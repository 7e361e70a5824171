// SPDX-License-Identifier: Apache-2.0
// Uses tare::files: the SHA-256 of nothing, and the refusal of an invalid plan.
#include <cstdio>
#include <string>

#include "quant/base/error.h"
#include "quant/file/sha256.h"
#include "quant/plan/plan.h"

int main() {
  const std::string expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  if (tare::Sha256Hex(std::span<const std::byte>()) != expected) return std::puts("use_files: got another digest"), 1;
  try {
    tare::Plan::Parse("no such site=int6/row");
  } catch (const tare::Error&) {
    return 0;
  }
  return std::puts("use_files: got no refusal"), 1;
}
