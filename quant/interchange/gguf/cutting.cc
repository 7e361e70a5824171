// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/cutting.h"

namespace tare::gguf {

std::string CuttingsText() {
  std::string text;
  for (const Cutting& cutting : kCuttings)
    text += (text.empty() ? "" : &cutting == &kCuttings.back() ? " or " : ", ") + std::string(cutting.name);
  return text;
}

Json NormalizerOf(const Cutting& cutting) { return cutting.composes ? Json{{"type", "NFC"}} : Json(); }

Json PreTokenizerOf(const Cutting& cutting) {
  const Json bytes{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", cutting.pattern.empty()}};
  if (cutting.single_digits)
    return {{"type", "Sequence"},
            {"pretokenizers", Json::array({{{"type", "Digits"}, {"individual_digits", true}}, bytes})}};
  if (cutting.pattern.empty()) return bytes;
  const Json split{
      {"type", "Split"}, {"pattern", {{"Regex", cutting.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

}  // namespace tare::gguf
