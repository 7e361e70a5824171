// SPDX-License-Identifier: Apache-2.0
// WithGridFiles of plan.h.
#include <algorithm>
#include <charconv>

#include "quant/base/message.h"
#include "quant/file/mapped_file.h"
#include "quant/format/grid.h"
#include "quant/plan/plan.h"

namespace tare {
namespace {

// 256 values of any spelling.
constexpr size_t kMaxBytes = 65536;

bool BeginsWithANumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text = text.substr(0, text.find_first_of(" \t\r\n"));
  double value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size();
}

std::string GridOfFile(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxBytes)
    Fail("{}: got {} bytes, expected the 2 to 256 numbers of a grid", path, file.bytes().size());
  return GridName(ParseGrid(file.text(), path));
}

}  // namespace

std::string WithGridFiles(std::string_view text) {
  std::string made;
  for (;;) {
    const size_t mark = text.find(kGridMark);
    const size_t end = mark == text.npos ? mark : text.find(')', mark);
    if (end == text.npos) return made.append(text);  // who parses it says what is missing
    const size_t inside = mark + kGridMark.size();
    const std::string_view named = text.substr(inside, end - inside);
    if (BeginsWithANumber(named))
      made.append(text.substr(0, end + 1));
    else
      made.append(text.substr(0, mark)).append(GridOfFile(std::string(named)));
    text.remove_prefix(end + 1);
  }
}

}  // namespace tare
